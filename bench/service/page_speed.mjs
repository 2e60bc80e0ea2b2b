// How fast the page of a large study is: imports TRIALS trials of 8 parameters, opens the study in Debian's Chromium with a cold
// cache, scrolls through it, and completes ten more trials while it is open.
//   node bench/service/page_speed.mjs BIN_DIR MODULES_DIR [TRIALS]
// BIN_DIR has luthierd; MODULES_DIR has playwright-core: build/peers/web/node_modules.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [bin, modules, trials = "100000"] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const scratch = mkdtempSync(join(tmpdir(), "luthier-page-speed-"));
const study = "projects/default/studies/large";

async function start() {
  const child = spawn(join(bin, "luthierd"), ["--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--data-dir", join(scratch, "data")], { stdio: ["ignore", "ignore", "pipe"] });
  const url = await new Promise((resolve) => {
    let log = "";
    child.stderr.on("data", (text) => {
      log += text;
      const found = /url=(http:\/\/127\.0\.0\.1:\d+)/.exec(log);
      if (found !== null) resolve(found[1]);
    });
  });
  return { child, url, token: readFileSync(join(scratch, "data/admin.token"), "utf8").trim() };
}
async function stop({ child }) {
  child.kill("SIGTERM");
  await new Promise((resolve) => child.on("exit", resolve));
}

let server = await start();
async function call(method, body) {
  const answer = await fetch(`${server.url}/luthier.v1.${method}`, { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${server.token}` }, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

const names = Array.from({ length: 8 }, (_, i) => `p${i}`);
await call("StudyService/CreateStudy", { studyId: "large", spec: { algorithm: { random: {} }, budget: { maxTrials: "1000" }, metric: { name: "loss", goal: "MINIMIZE" }, space: names.map((name) => ({ name, float: { min: 0, max: 1 } })) } });
for (let i = 0; i < Number(trials); i += 500) {
  const batch = Array.from({ length: 500 }, () => {
    const parameters = Object.fromEntries(names.map((p) => [p, Math.random()]));
    const loss = names.reduce((sum, p, k) => sum + (parameters[p] - 0.1 * k) ** 2, 0);
    return { parameters, state: "COMPLETE", finalMeasurement: { step: "1", metrics: { loss } } };
  });
  await call("StudyService/ImportTrials", { parent: study, trials: batch, requestId: `import-${i}` });
}
await stop(server); // So that the first look finds a coordinator that has read no table.
server = await start();

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"] });
const tasks = (page) => page.evaluate(() => Math.max(0, ...window.tasks.splice(0)));
async function look(what) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.addInitScript(() => {
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => Math.round(e.duration)))).observe({ type: "longtask", buffered: true });
    const seen = { history: 0, all: 0 };
    window.seen = seen;
    const drawn = (which) => requestAnimationFrame(() => setTimeout(() => { seen[which] ||= Math.round(performance.now()); }));
    new MutationObserver(() => {
      if (/^\d{4,} trials/.test(document.querySelector("figcaption")?.textContent ?? "")) drawn("history");
      if (document.querySelectorAll("h2").length > 5) drawn("all");
    }).observe(document, { childList: true, subtree: true });
  });
  await page.goto(`${server.url}/#token=${server.token}&/studies/default/large`);
  await page.waitForFunction(() => window.seen.all > 0);
  const click = await page.evaluate(async () => {
    const begin = performance.now();
    document.querySelector("figcaption button").click();
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    return Math.round(performance.now() - begin);
  });
  const { history, all } = await page.evaluate(() => window.seen);
  console.log(`${what}: history after ${history} ms, all sections ${all} ms, a click is answered in ${click} ms, longest task ${await tasks(page)} ms`);
  return page;
}
await (await look("first look after the coordinator's start")).close();
await (await look("second look")).close();
const page = await look("third look");
const begin = Date.now();
await page.evaluate(async () => {
  for (let y = 0; y < document.body.scrollHeight; y += 300) {
    scrollTo(0, y);
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  }
});
console.log(`all of it scrolled through in ${Date.now() - begin} ms, longest task ${await tasks(page)} ms`);
await page.evaluate(() => scrollTo(0, 0));
await page.waitForTimeout(3000);
await tasks(page);

const took = [];
for (let i = 0; i < 10; ++i) {
  const lease = (await call("WorkerService/Suggest", { study, worker: "bench", count: 1, requestId: `ask-${i}` })).leases[0];
  await page.waitForTimeout(1200);
  await call("WorkerService/Complete", { trial: lease.trial.name, token: lease.token, measurement: { metrics: { loss: -1 - i } } });
  const committed = Date.now();
  await page.waitForFunction((n) => document.querySelector("header.head")?.textContent?.includes(`trial ${n}`), String(lease.trial.number), { polling: 10 });
  took.push(Date.now() - committed);
}
const session = await page.context().newCDPSession(page);
const live = await tasks(page), heap = () => page.evaluate(() => Math.round(performance.memory.usedJSHeapSize / 1e6));
const before = await heap();
await session.send("HeapProfiler.collectGarbage");
console.log(`ten completed trials seen after ${took.join(", ")} ms, longest task meanwhile ${live} ms, heap ${before} MB, ${await heap()} MB without garbage`);
await browser.close();
await stop(server);
rmSync(scratch, { recursive: true, force: true });
