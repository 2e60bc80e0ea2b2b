// The page in a real browser, against a real coordinator: every page, live changes, actions, errors, hostile names.
//   node page_test.mjs BIN_DIR MODULES_DIR [SCREENSHOTS_DIR]
// LUTHIER_PAGE_TESTS: a regular expression; only tests whose names match run.
// BIN_DIR has luthierd; MODULES_DIR has playwright-core and axe-core. Chromium is Debian's.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [bin, modules, pictures] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const scratch = mkdtempSync(join(tmpdir(), "luthier-page-"));
const HOSTILE = `<img src=x onerror="document.title='owned'">`;

function start(port = 0, data = "data", more = []) {
  const child = spawn(join(bin, "luthierd"), ["--listen", "127.0.0.1:0", "--http-listen", `127.0.0.1:${port}`, "--data-dir", join(scratch, data), ...more], { stdio: ["ignore", "pipe", "pipe"] });
  return new Promise((resolve, reject) => {
    let log = "";
    child.stderr.on("data", (text) => {
      log += text;
      const url = /url=(https?:\/\/127\.0\.0\.1:\d+)/.exec(log);
      if (url !== null) resolve({ child, url: url[1] });
    });
    child.on("exit", (code) => reject(new Error(`luthierd ended with ${code}: ${log}`)));
  });
}

const ended = (child) => new Promise((resolve) => (child.exitCode !== null ? resolve() : child.on("exit", resolve)));
let server = await start();
const token = readFileSync(join(scratch, "data/admin.token"), "utf8").trim();

async function call(method, body = {}) {
  const response = await fetch(`${server.url}/luthier.v1.${method}`, {
    method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` }, body: JSON.stringify(body),
  });
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  return answer;
}

let asks = 0;
const name = (study) => `projects/default/studies/${study}`;
async function ask(study) {
  return (await call("WorkerService/Suggest", { study: name(study), worker: "browser-test", count: 1, requestId: `ask-${++asks}` })).leases[0];
}
async function tell(lease, value, more = {}) {
  await call("WorkerService/Complete", { trial: lease.trial.name, token: lease.token, measurement: { metrics: { loss: value }, ...more } });
}

async function study(id, space, trials, value) {
  await call("StudyService/CreateStudy", { studyId: id, spec: { displayName: `${HOSTILE} ‮ ${id} 🎻`, space, metric: { name: "loss", goal: "MINIMIZE" }, algorithm: { random: {} }, budget: { maxTrials: String(Math.max(5, trials + 5)) } } });
  for (let i = 0; i < trials; ++i) {
    const lease = await ask(id);
    const loss = value(i, lease.trial.parameters);
    if (loss === null) await call("WorkerService/Fail", { trial: lease.trial.name, token: lease.token, failure: { kind: "CONFIG", reason: "DIVERGED", message: HOSTILE } });
    else {
      if (i % 3 === 0) await call("WorkerService/Report", { trial: lease.trial.name, token: lease.token, measurements: [1, 2, 3].map((step) => ({ step: String(step), metrics: { loss: loss + 1 / step } })) });
      await tell(lease, loss, { step: "4" });
    }
  }
}

const space = [
  { name: "lr", float: { min: 1e-5, max: 0.1, scale: "LOG" } }, { name: "drop", float: { min: 0.01, max: 0.99, scale: "LOGIT" } },
  { name: "width", int: { min: "8", max: "512", scale: "LOG" } }, { name: "kind", categorical: { values: ["adam", HOSTILE] } },
];
await study("full", space, 40, (i, p) => (i % 9 === 4 ? null : (Math.log10(p.lr) + 3) ** 2 + p.drop));
await study("empty", space, 0, () => 0);
await study("one", space, 1, () => 1);
await study("failed", space, 4, () => null);
await study("constant", space, 4, () => 2);
await study("extreme", space, 4, (i) => (i % 2 ? 1e300 : -1e300));
await study("wide", Array.from({ length: 1000 }, (_, i) => ({ name: `p${i}`, float: { min: 0, max: 1 } })), 3, (i) => i);
await study("names", ["__proto__", "constructor", "toString", "hasOwnProperty"].map((n) => ({ name: n, float: { min: 0, max: 1 } })), 12, (i, p) => p["constructor"]);
await study("long", Array.from({ length: 12 }, (_, i) => ({ name: `a_name_${"x".repeat(50)}_of_${i}`, float: { min: 0, max: 1 } })), 12, (i) => i * 1e307);
await study("vector", [{ name: "v", float: { min: 0, max: 1 }, count: 1000 }], 3, (i) => i);

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
const problems = [];
async function open(path, { scheme = "light", width = 1280, key = token } = {}) {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: scheme });
  page.on("pageerror", (error) => problems.push(`${path}: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" && /Content Security Policy|TrustedHTML/.test(message.text())) problems.push(`${path}: ${message.text()}`);
  });
  await page.goto(`${server.url}/#token=${key}&${path}`);
  return page;
}
async function settled(page) {
  await page.waitForFunction(() => !document.querySelector("main p[role=status]")?.textContent?.startsWith("…"));
  await page.evaluate(async () => {
    for (let y = 0; y < document.body.scrollHeight; y += 600) {
      scrollTo(0, y);
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    }
    scrollTo(0, 0);
  });
}

const failures = [];
async function test(what, run) {
  if (process.env.LUTHIER_PAGE_TESTS && !new RegExp(process.env.LUTHIER_PAGE_TESTS).test(what)) return;
  try {
    await run();
    console.log(`ok      ${what}`);
  } catch (error) {
    failures.push(what);
    console.log(`FAILED  ${what}\n${error.stack}`);
  }
}

await test("every page is without violations, in both themes, wide and narrow", async () => {
  const paths = ["/studies", "/workers", "/new", "/admin", `/compare?studies=${name("full")},${name("failed")},${name("names")}`, "/studies/default/full?at=7", "/studies/default/full?section=importance", "/studies/default/full/trials", "/studies/default/full/trials/1", "/studies/default/full/trials/5",
                 ...["full", "empty", "one", "failed", "constant", "extreme", "wide", "names", "long", "vector"].map((id) => `/studies/default/${id}`)];
  for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 390]]) {
    for (const path of paths) {
      const page = await open(path, { scheme, width });
      await settled(page);
      assert.notEqual(await page.title(), "owned");
      await page.evaluate(axe).catch(() => {});
      const found = await page.evaluate(async () => (await window.axe.run()).violations.map((v) => `${v.id} ${v.nodes.length} ${v.nodes[0].html}`));
      assert.deepEqual(found, [], `${path} ${scheme} ${width}`);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wider <= 1, `${path} is ${wider} pixels wider than a window of ${width}`);
      if (pictures) await page.screenshot({ path: join(pictures, `${path.replace(/\W+/g, "_").slice(1)}-${scheme}-${width}.png`), fullPage: true });
      await page.close();
    }
  }
  assert.deepEqual(problems, []);
});

await test("a change is seen within 600 ms of its commit", async () => {
  const page = await open("/studies/default/full/trials?order=-number");
  await settled(page);
  await page.waitForSelector("table td");
  const lease = await ask("full");
  await page.waitForFunction((n) => [...document.querySelectorAll("td")].some((td) => td.textContent === n), String(lease.trial.number));
  await tell(lease, 0.001);
  const begin = Date.now();
  await page.waitForFunction(() => document.querySelector("header")?.textContent?.includes("0.001"), null, { polling: 20 });
  const took = Date.now() - begin;
  console.log(`        seen after ${took} ms`);
  assert.ok(took <= 600 * (process.env.LUTHIER_SLOW ? 10 : 1), `after ${took} ms`);
  await page.close();
});

await test("the history of a large study is drawn before the rest of it has come, and all of it is then there", async () => {
  await call("StudyService/CreateStudy", { studyId: "large", spec: { space: [{ name: "x", float: { min: 0, max: 1 } }, { name: "y", float: { min: 0, max: 1 } }], metric: { name: "loss", goal: "MINIMIZE" }, algorithm: { random: {} }, budget: { maxTrials: "1" } } });
  for (let i = 0; i < 6; ++i) {
    const trials = Array.from({ length: 1000 }, (_, k) => ({ parameters: { x: k / 1000, y: (7 * k % 1000) / 1000 }, state: "COMPLETE", finalMeasurement: { metrics: { loss: (k * 37 % 1000) / 1000 } } }));
    await call("StudyService/ImportTrials", { parent: name("large"), trials, requestId: `large-${i}` });
  }
  const page = await open("/studies");
  let tables = 0, go = () => {};
  const held = new Promise((resolve) => { go = resolve; });
  await page.route("**/luthier.v1.StudyService/GetTrialTable", async (route) => {
    if (++tables > 1) await held;
    await route.continue();
  });
  await page.goto(`${server.url}/#/studies/default/large`);
  await page.waitForSelector("text=6000 trials; the best value is 0 in trial 1");
  // Points cover most of the plot, which a handful of marks or the axes alone do not.
  const inked = () => page.evaluate(() => {
    const canvas = document.querySelector(".plot canvas"), { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let i = 3; i < data.length; i += 4) if (data[i] > 200) ++count;
    return count / (canvas.width * canvas.height);
  });
  await page.waitForFunction(() => document.querySelector(".plot canvas") !== null);
  assert.ok(await inked() > 0.05, `the points cover ${await inked()} of the plot`);
  assert.equal(await page.getByText("Over each parameter").count(), 0);
  go();
  await page.waitForSelector("text=Over each parameter");
  await settled(page);
  assert.equal(await page.locator(".tip").count() >= 4, true);
  assert.ok(tables >= 2);
  await page.close();
  await call("StudyService/DeleteStudy", { name: name("large"), requestId: "delete-large" });
});

await test("a study's page lists its sections, by keyboard and in a narrow window, and addresses name them", async () => {
  const titles = (page) => page.locator("nav[aria-label=Sections] a").allTextContents();
  const bare = await open("/studies/default/failed"); // It has no figure that needs a value.
  await settled(bare);
  await bare.getByRole("heading", { name: "Learning curves" }).waitFor();
  assert.deepEqual(await titles(bare), ["History", "Learning curves", "Who ran what, when", "Trials"]);
  await bare.close();
  for (const width of [1280, 390]) {
    const page = await open("/studies/default/full", { width });
    await page.getByText("Over each parameter").first().waitFor();
    const headings = await page.locator("section > h2").allTextContents();
    assert.deepEqual(await titles(page), [...headings, "Trials"]);
    for (const title of ["History", "Over two parameters", "Importance", "How good the trials are", "Learning curves"]) assert.ok(headings.includes(title), title);
    // By the keyboard alone: from the first link to one that is out of sight in a narrow window, whose section comes and has the focus.
    const list = page.getByRole("navigation", { name: "Sections" });
    await list.getByRole("link", { name: "History" }).focus();
    const last = list.getByRole("link", { name: "Learning curves" });
    for (let i = 0; i < 12 && !await last.evaluate((a) => a === document.activeElement); ++i) await page.keyboard.press("Tab");
    const box = await last.boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= width + 1, `the link is at ${box.x} in a window of ${width}`);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.hash === "#/studies/default/full?section=learning-curves");
    await page.waitForFunction(() => document.activeElement?.textContent === "Learning curves");
    // What is drawn above it meanwhile does not push it away, and the list stays in sight, above it.
    const inPlace = () => page.waitForFunction(() => {
      const list = document.querySelector("nav[aria-label=Sections]").getBoundingClientRect(), heading = document.getElementById("section-learning-curves")?.querySelector("h2").getBoundingClientRect();
      const ends = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
      return heading !== undefined && list.top > -1 && list.top < 2 && heading.top >= list.bottom - 1 && (heading.top < list.bottom + 60 || (ends && heading.bottom < innerHeight));
    });
    await page.waitForSelector("text=/[0-9]+ curves/");
    await inPlace();
    // An address that somebody was sent shows the same; there is no other parameter lost.
    await page.goto(`${server.url}/#/studies`);
    await page.goto(`${server.url}/#/studies/default/full?metric=loss&section=learning-curves`);
    await page.waitForSelector("text=/[0-9]+ curves/");
    await inPlace();
    await list.getByRole("link", { name: "History" }).click();
    await page.waitForFunction(() => location.hash === "#/studies/default/full?metric=loss&section=history");
    // Who scrolls on is left alone.
    await page.mouse.move(width / 2, 400);
    await page.mouse.wheel(0, 1500);
    await page.waitForTimeout(300);
    assert.ok(await page.evaluate(() => scrollY) > 800);
    await list.getByRole("link", { name: "Trials", exact: true }).click();
    await page.waitForSelector("[aria-label=Trials] table");
    await page.close();
  }
});

await test("what a trial is begins in the first screen of its page, wide and narrow", async () => {
  for (const [width, height] of [[1280, 800], [390, 844]]) {
    const page = await open("/studies/default/full/trials/1", { width });
    await page.setViewportSize({ width, height });
    await page.getByRole("heading", { name: /^Trial 1 COMPLETE/, level: 1 }).waitFor();
    for (const what of [page.locator("caption", { hasText: "Setting" }), page.locator("th", { hasText: "lr" }).first(), page.locator("caption", { hasText: "Result" }), page.locator("th", { hasText: "loss" }).first()]) {
      const box = await what.boundingBox();
      assert.ok(box.y + box.height < height, `${await what.textContent()} is at ${box.y} of ${height}`);
    }
    assert.ok((await page.locator("h1").boundingBox()).y < 0.3 * height);
    assert.match(await page.title(), /^Trial 1 of /);
    assert.equal(await page.getByText("The study file, with all defaults").count(), 0);
    await page.getByRole("navigation", { name: "Study" }).getByText("ACTIVE").waitFor();
    await page.getByRole("navigation", { name: "Study" }).getByRole("link", { name: /full/ }).click();
    await page.waitForFunction(() => location.hash === "#/studies/default/full");
    await page.getByText("The study file, with all defaults").waitFor();
    await page.close();
  }
});

await test("workers name the trials that they hold, with links to them", async () => {
  const held = [await ask("constant"), await ask("constant")];
  const page = await open("/workers");
  const row = page.locator("tr", { hasText: "browser-test" }), number = held[1].trial.number;
  await row.getByRole("link", { name: `constant ${number}`, exact: true }).waitFor();
  const cells = (await row.locator("td").allTextContents()).map(Number);
  assert.deepEqual((await page.locator("main th").allTextContents()).slice(3, -1), ["granted", "complete", "stopped early", "paused", "failed", "given back", "expired", "cancelled"]);
  assert.equal(cells[3], 2 + cells.slice(4, 11).reduce((a, b) => a + b), "what was granted is held, or came to something");
  assert.match(await row.locator("td").nth(2).textContent(), new RegExp(`^\\d+: .*constant ${held[0].trial.number}, constant ${number}`));
  await row.getByRole("link", { name: `constant ${number}`, exact: true }).click();
  await page.waitForFunction((n) => location.hash === `#/studies/default/constant/trials/${n}`, number);
  for (const lease of held) await tell(lease, 2);
  await page.goto(`${server.url}/#/workers`);
  await row.waitFor();
  await page.waitForFunction(() => !document.querySelector("table")?.textContent.includes("constant "));
  await page.close();
});

await test("where all trials failed the head says why, and that no figures will come once the study has ended", async () => {
  const page = await open("/studies/default/failed");
  await page.getByText("all 4 failed, the last of them").waitFor();
  assert.match(await page.locator("header").textContent(), /trial 4: DIVERGED, <img src=x/);
  await page.getByText("The other figures come with the first result.").waitFor();
  await call("StudyService/StopStudy", { name: name("failed") });
  await page.getByText("No trial has a result, and the study has ended: there are no other figures.").waitFor();
  await page.close();
});

await test("hostile and long names stay in the frame, and the list of sections has its current entry", async () => {
  const page = await open("/studies/default/full?section=importance");
  await page.locator("nav [aria-current=location]", { hasText: "Importance" }).waitFor();
  assert.match(await page.locator("h1").textContent(), /\\u202e full/, "controls of writing directions are shown");
  assert.match(await page.title(), /\\u202e full/);
  assert.equal(await page.evaluate(() => document.body.textContent.includes("\u202e")), false);
  const room = await page.locator("nav.jump").evaluate((nav) => { // As with two objectives and a model.
    const list = nav.firstElementChild;
    for (const title of ["Front", "Expected and came"]) list.append(Object.assign(document.createElement("li"), { textContent: title }));
    return nav.clientWidth - nav.scrollWidth;
  });
  assert.ok(room >= 0, `${room} pixels are left`);
  await page.setViewportSize({ width: 390, height: 900 });
  for (const path of ["/studies/default/long/trials/1", "/studies", "/admin"]) {
    await page.goto(`${server.url}/#${path}`);
    await page.locator("main table").first().waitFor();
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, path);
  }
  await page.locator(".audit td").first().waitFor();
  const [what, outcome, who] = await page.locator(".audit tr").nth(1).evaluate((tr) => [3, 5, 1].map((k) => tr.cells[k].getBoundingClientRect().toJSON()));
  assert.ok(what.right <= 390 && outcome.right <= 390 && who.top >= outcome.bottom - 1, "what was done and its outcome are in sight, before who did it");
  await page.setViewportSize({ width: 1280, height: 900 });
  assert.ok((await page.locator("[aria-label=Audit]").evaluate((box) => box.clientWidth - box.scrollWidth)) >= 0);
  assert.equal(await page.locator(".audit", { hasText: "Listed projects" }).count(), 0);
  await page.getByLabel("with what was only read").check();
  await page.locator(".audit", { hasText: "Listed projects" }).waitFor();
  await page.close();
});

await test("the shares of trials that are as good are those of luthier plot edf, for one study and for several", async () => {
  const file = join(scratch, "edf.json");
  const drawn = (...more) => {
    const made = spawnSync(join(bin, "luthier"), ["plot", "edf", "full", "--server", `unix:${join(scratch, "data/socket")}`, "--out", file, ...more], { encoding: "utf8" });
    assert.equal(made.status, 0, made.stderr);
    return JSON.parse(readFileSync(file, "utf8")).panels[0].layers.map(({ x, y }) => x.map((v, i) => [Number(v.toPrecision(8)), Number(y[i].toPrecision(8))]));
  };
  const shown = async (page, title) => {
    const section = page.locator("section", { has: page.getByRole("heading", { name: title }) });
    await section.scrollIntoViewIfNeeded();
    await section.getByRole("button", { name: "as a table" }).click();
    const rows = await section.locator("table tr").evaluateAll((all) => all.slice(1).map((tr) => [...tr.cells].map((td) => td.textContent)));
    const curves = new Map();
    for (const [name, x, y] of rows) curves.set(name, [...(curves.get(name) ?? []), [Number(x), Number(y)]]);
    // The curve begins at no trial, and goes on to the end of the frame.
    return [...curves.values()].map((all) => all.filter(([x, y], i) => y > 0 && !(i === all.length - 1 && y === all[i - 1][1])));
  };
  const page = await open("/studies/default/full");
  await settled(page);
  const one = await shown(page, "How good the trials are");
  assert.ok(one[0].length > 30);
  assert.deepEqual(one, drawn());
  await page.goto(`${server.url}/#/compare?studies=${name("full")},${name("names")},${name("constant")}`);
  await page.waitForSelector("text=In what they differ");
  const several = await shown(page, "How good their trials are");
  assert.equal(several.length, 3);
  assert.deepEqual(several, drawn("--compare", "names", "--compare", "constant"));
  await page.close();
});

await test("importance says what speaks against trusting it, and has its intervals", async () => {
  const page = await open("/studies/default/full");
  const section = page.locator("section", { has: page.getByRole("heading", { name: "Importance" }) });
  await section.getByText("trials are few for 4 parameters").waitFor();
  await section.getByText("5 % to 95 %").scrollIntoViewIfNeeded();
  assert.match(await section.locator("figcaption").textContent(), /^From \d+ complete trials\. A model of the shares predicts \d+ % of the variance of trials that it has not seen/);
  await page.close();
});

await test("a page says why nothing runs wherever it lists studies, and how a worker is started", async () => {
  await call("StudyService/CreateStudy", { studyId: "lonely", spec: { space: [{ name: "x", float: { min: 0, max: 1 } }], metric: { name: "loss", goal: "MINIMIZE" }, objective: { command: { argv: ["true", "{x}"] } } } });
  const page = await open("/workers");
  await page.locator("li", { hasText: "lonely" }).getByText("no worker of the default pool").waitFor();
  assert.equal(await page.getByText("Each active study has trials under way").count(), 0);
  await page.goto(`${server.url}/#/studies`);
  const row = page.locator("tr", { hasText: "lonely" });
  await row.getByText("no worker", { exact: true }).waitFor();
  assert.match(await row.locator(".standing").getAttribute("title"), /no worker of the default pool/);
  await page.goto(`${server.url}/#/studies/default/lonely`);
  await page.getByText("luthier-worker --server 127.0.0.1:7790", { exact: true }).waitFor();
  await page.goto(`${server.url}/#/studies/default/empty`);
  await page.getByText("No worker takes trials of this study").waitFor();
  assert.equal(await page.getByText("Why nothing runs").count(), 0);
  await page.close();
  await call("StudyService/DeleteStudy", { name: name("lonely"), requestId: "delete-lonely" });
});

await test("a trial that was paused and went on is one trial: its curve, its time and its best value", async () => {
  await call("StudyService/CreateStudy", { studyId: "halving", spec: { space: [{ name: "x", float: { min: 0, max: 1 } }], metric: { name: "loss", goal: "MINIMIZE" }, resource: { max: "9" }, algorithm: { successiveHalving: { trials: "3" } }, budget: { maxTrials: "3" } } });
  const point = (step, loss) => ({ step: String(step), metrics: { loss } });
  const report = (lease, start, measurements) => call("WorkerService/Report", { trial: lease.trial.name, token: lease.token, startStep: String(start), measurements });
  const complete = (lease, measurement, more = {}) => call("WorkerService/Complete", { trial: lease.trial.name, token: lease.token, measurement, ...more });
  const leases = [await ask("halving"), await ask("halving"), await ask("halving")];
  for (const [i, lease] of leases.entries()) {
    await report(lease, 0, [1, 2, 3].map((step) => point(step, i + 1 / step)));
    await complete(lease, point(3, i + 1 / 3), { paused: true, checkpoint: "c3" });
  }
  const before = await open("/studies");
  await before.locator("tr", { hasText: "halving" }).getByText("3 paused at rungs").waitFor();
  await before.goto(`${server.url}/#/studies/default/halving`);
  await before.locator("header", { hasText: "3 paused at rungs of 3" }).waitFor();
  await before.close();
  const lease = await ask("halving"), number = lease.trial.number;
  assert.equal(lease.trial.number, leases[0].trial.number);
  await report(lease, 3, [4, 5, 6, 7, 8].map((step) => point(step, 1 / step)));
  await complete(lease, point(9, 5));
  const page = await open(`/studies/default/halving/trials/${number}`);
  await page.waitForSelector("text=9 points, from step 1 to step 9, in 2 attempts");
  const row = page.locator("tr", { hasText: "seconds of all attempts" }), own = Number(await row.locator("td").textContent());
  const { attempts } = await call("StudyService/GetTrial", { name: `${name("halving")}/trials/${number}` });
  const at = (text) => new Date(text).getTime() / 1000, sum = attempts.reduce((all, a) => all + at(a.endTime) - at(a.startTime), 0), span = at(attempts[1].endTime) - at(attempts[0].startTime);
  assert.ok(span - sum > 0.005, `it paused for ${span - sum} s`); // The others ran meanwhile.
  assert.ok(Math.abs(own - sum) < 0.3 * (span - sum) + 0.002, `${own} s, and not ${sum} s: the pause does not count`);
  await page.goto(`${server.url}/#/studies/default/halving/trials`);
  const listed = Number(await (await page.waitForFunction((of) => {
    const table = document.querySelector("[aria-label=Trials] table"), heads = [...(table?.querySelectorAll("thead th") ?? [])];
    const column = heads.findIndex((th) => th.textContent === "seconds"), row = [...(table?.querySelectorAll("tbody tr") ?? [])].find((tr) => parseFloat(tr.cells[0].textContent) === of);
    return column >= 0 && row ? row.cells[column].textContent : "";
  }, Number(number))).jsonValue());
  assert.ok(Math.abs(listed - own) < 0.3 * (span - sum) + 0.002, `${listed} s in the table, ${own} s on its page`);
  await page.goto(`${server.url}/#/studies/default/halving`);
  await page.waitForSelector(`text=the best value is 5 in trial ${number}`);
  await page.getByRole("heading", { name: "Learning curves" }).scrollIntoViewIfNeeded();
  await page.waitForSelector("text=3 curves, the stronger the better.");
  await page.waitForSelector(`text=Best setting: x`);
  await page.getByText("The study file, with all defaults").click();
  await page.locator("pre", { hasText: "successive_halving" }).waitFor();
  await page.getByRole("heading", { name: "Who ran what, when" }).scrollIntoViewIfNeeded();
  await page.locator(".legend li", { hasText: "ran until a pause" }).waitFor();
  await page.close();
  await call("StudyService/DeleteStudy", { name: name("halving"), requestId: "delete-halving" });
});

await test("the keyboard walks from trial to trial and opens one", async () => {
  const page = await open("/studies/default/full");
  await settled(page);
  await page.locator(".plot").first().focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.locator(".tip").first().textContent(), /^trial 2 ·/);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash === "#/studies/default/full/trials/2");
  await page.close();
});

await test("a study is paused and goes on, a trial gets a note", async () => {
  const page = await open("/studies/default/full");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.waitForSelector("text=PAUSED");
  await page.getByRole("button", { name: "Resume" }).click();
  await page.waitForSelector("text=ACTIVE");
  await page.goto(`${server.url}/#/studies/default/full/trials/1`);
  await page.getByLabel("Note", { exact: true }).fill(HOSTILE);
  await page.getByRole("button", { name: "Keep it" }).click();
  await page.waitForFunction((text) => [...document.querySelectorAll("td")].some((td) => td.textContent === text), HOSTILE);
  await page.close();
});

await test("sorting and filters are in the address", async () => {
  const page = await open("/studies/default/full/trials?state=FAILED&order=-number");
  await page.waitForSelector("td .failed");
  assert.equal(await page.locator("td .complete").count(), 0);
  await page.getByRole("button", { name: "lr", exact: true }).click();
  await page.waitForFunction(() => location.hash.includes("order=params.lr"));
  const coming = page.waitForEvent("download");
  await page.getByRole("button", { name: "As CSV" }).click();
  const file = await coming, lines = readFileSync(await file.path(), "utf8").trim().split("\r\n");
  assert.equal(file.suggestedFilename(), "full.csv");
  assert.match(lines[0], /^number,state,metrics\.loss,.*params\.lr/);
  assert.ok(lines.length > 3 && lines.slice(1).every((line) => /^\d+,FAILED,,/.test(line)), lines.join(" "));
  await page.close();
});

await test("a study file is checked while it is written, and made", async () => {
  const page = await open("/new");
  const text = page.getByLabel("Study file");
  await page.waitForSelector("text=What it means");
  await text.fill("space:\n  - {name: x, float: {min: 2, max: 1}}\nmetric: {name: loss, goal: MINIMIZE}\n");
  await page.waitForSelector("text=One thing is wrong");
  await page.getByRole("button", { name: "line 2" }).click();
  assert.equal(await text.evaluate((area) => area.value.slice(0, area.selectionStart).split("\n").length), 2);
  await page.getByRole("button", { name: "Create the study" }).click();
  await page.waitForSelector("text=not checked yet, or wrong");
  await text.fill(`space:\n  - {name: __proto__, float: {min: 1, max: 2}}\nmetric: {name: loss, goal: MINIMIZE}\n`);
  await page.waitForSelector("text=What it means");
  await page.getByRole("button", { name: "Create the study" }).click();
  await page.waitForSelector("text=study_id");  // The id is missing.
  await page.getByLabel("Id").fill("made-here");
  await page.getByRole("button", { name: "Create the study" }).click();
  await page.waitForFunction(() => location.hash === "#/studies/default/made-here");
  await page.close();
  await call("StudyService/DeleteStudy", { name: name("made-here"), requestId: "delete-made" });
});

await test("a form has the fields of the API, and says the same as the study file beside it", async () => {
  const page = await open("/new");
  const text = page.getByLabel("Study file"), form = page.getByRole("region", { name: "Form" });
  await page.waitForSelector("text=What it means");
  // From the text to the form.
  await form.getByLabel("space[0].name", { exact: true }).waitFor();
  assert.equal(await form.getByLabel("space[0].name", { exact: true }).inputValue(), "lr");
  assert.equal(await form.getByLabel("space[2].kind", { exact: true }).inputValue(), "categorical");
  assert.equal(await form.getByLabel("space[2].categorical.values", { exact: true }).inputValue(), "adam\nsgd");
  assert.equal(await form.getByLabel("budget.max_trials", { exact: true }).inputValue(), "50");
  // All that a message has is there, with its comment.
  await form.locator("summary", { hasText: /^algorithm/ }).click();
  await form.getByLabel("algorithm.kind", { exact: true }).locator("option", { hasText: "harmonica" }).waitFor({ state: "attached" });
  const algorithms = await form.getByLabel("algorithm.kind", { exact: true }).locator("option").allTextContents();
  assert.ok(algorithms.includes("auto") && algorithms.includes("harmonica") && algorithms.length >= 17, String(algorithms));
  await form.getByLabel("algorithm.kind", { exact: true }).selectOption("bo");
  await form.getByText("Quasi-random trials before the model is used").waitFor();
  // From the form to the text.
  await form.getByLabel("algorithm.bo.initial_points", { exact: true }).fill("7");
  await form.getByLabel("space[0].float.max", { exact: true }).fill("0.000001");
  await page.waitForFunction(() => document.querySelector("[aria-label='Study file']").value.includes("algorithm: {bo: {initial_points: 7}}"));
  // What is wrong stands at its field, and the form keeps what was typed.
  await form.locator("label", { has: page.getByLabel("space[0].float.max", { exact: true }) }).or(form.locator("fieldset", { has: page.getByLabel("space[0].float.max", { exact: true }) })).locator(".bad[role=alert]").first().waitFor();
  await form.getByLabel("space[0].float.max", { exact: true }).fill("0.5");
  await form.getByRole("button", { name: "add to space" }).click();
  await form.getByLabel("space[3].name", { exact: true }).fill("y: \"z\"");
  await form.getByLabel("space[3].kind", { exact: true }).selectOption("bool");
  await page.waitForSelector("text=One thing is wrong");
  await form.getByLabel("space[3].name", { exact: true }).fill("y");
  await form.locator("summary", { hasText: /^labels/ }).or(form.getByLabel("labels", { exact: true })).first().waitFor();
  await form.getByLabel("labels", { exact: true }).fill("team: vision\nnote: a: \"b\"");
  await page.waitForSelector("text=What it means");
  // A text that is wrong leaves the form as it was.
  const good = await text.inputValue();
  await text.fill("space: [");
  await page.waitForSelector("text=the form does not follow it");
  await page.getByRole("button", { name: "go back to the form" }).click();
  await page.waitForSelector("text=What it means");
  assert.equal(await text.inputValue(), good);
  await page.getByLabel("Id").fill("by-form");
  await page.getByRole("button", { name: "Create the study" }).click();
  await page.waitForFunction(() => location.hash === "#/studies/default/by-form");
  await page.close();
  const { spec } = await call("StudyService/GetStudy", { name: name("by-form") });
  assert.equal(spec.algorithm.bo.initialPoints, 7);
  assert.equal(spec.space[0].float.max, 0.5);
  assert.deepEqual(spec.space[3], { name: "y", bool: {} });
  assert.deepEqual(spec.labels, { team: "vision", note: 'a: "b"' });
  await call("StudyService/DeleteStudy", { name: name("by-form"), requestId: "delete-by-form" });
});

// A study that is asked and told here, by what `tell` makes of a setting.
async function told(id, spec, trials, tellOf) {
  await call("StudyService/CreateStudy", { studyId: id, spec: { metric: { name: "loss", goal: "MINIMIZE" }, budget: { maxTrials: String(trials + 5) }, ...spec } });
  for (let i = 0; i < trials; ++i) {
    const lease = await ask(id);
    await call("WorkerService/Complete", { trial: lease.trial.name, token: lease.token, measurement: tellOf(lease.trial.parameters, i) });
  }
}

await test("what an algorithm followed, learnt and expected has its own sections, and the results rule something out", async () => {
  await told("descent", { algorithm: { hoag: {} }, space: [{ name: "l2", float: { min: 1e-4, max: 100, scale: "LOG" } }] }, 8,
    ({ l2 }) => ({ metrics: { loss: Math.log(l2) ** 2 }, gradient: { full: { values: [2 * Math.log(l2) / l2] } } }));
  await told("stages", { algorithm: { harmonica: { samples: 40, stages: 1 } }, budget: { maxTrials: "60" }, space: Array.from({ length: 14 }, (_, i) => ({ name: `s${i}`, bool: {} })) }, 42,
    (p) => ({ metrics: { loss: (p.s3 ? -1 : 1) + (p.s5 === p.s7 ? 0.5 : -0.5) } }));
  await told("model", { algorithm: { bo: { initialPoints: 4 } }, space: [{ name: "x", float: { min: 0, max: 1 } }] }, 14, ({ x }) => ({ metrics: { loss: (x - 0.3) ** 2 } }));
  const expected = {
    descent: ["Along the gradients", "The length of the gradient where the range of each parameter counts as 1"],
    stages: ["What the stages learnt", "It explains 100 % of the variance of 40 samples", "Handed on", "No stage selected s0"],
    model: ["Expected and came", "came within two deviations"],
  };
  for (const [id, texts] of Object.entries(expected)) {
    const page = await open(`/studies/default/${id}`, { scheme: "dark", width: 390 });
    await settled(page);
    for (const text of texts) await page.getByText(text).first().scrollIntoViewIfNeeded();
    for (const other of Object.values(expected).map((t) => t[0]).filter((t) => t !== texts[0])) assert.equal(await page.getByRole("heading", { name: other }).count(), 0, `${other} on ${id}`);
    await page.evaluate(axe).catch(() => {});
    assert.deepEqual(await page.evaluate(async () => (await window.axe.run()).violations.map((v) => `${v.id} ${v.nodes[0].html}`)), [], id);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth) <= 1, id);
    await page.close();
  }
  const page = await open("/studies/default/model");
  await page.getByText("What the results rule out").click();
  await page.getByRole("button", { name: "Work it out" }).click();
  await page.waitForSelector("text=the algorithm has no bound of its own");
  await page.getByLabel("if it nowhere changes").fill("1.5");
  await page.getByRole("button", { name: "Work it out" }).click();
  await page.waitForSelector("text=of the space cannot hold a loss better than");
  await page.close();
  for (const id of Object.keys(expected)) await call("StudyService/DeleteStudy", { name: name(id), requestId: `delete-${id}` });
});

await test("where results are noisy the page shows the trial to take beside the best one, and why", async () => {
  const spec = { space: [{ name: "x", float: { min: 0, max: 1 } }], metric: { name: "loss", goal: "MINIMIZE" }, algorithm: { bo: { noisy: true, initialPoints: 4 } }, budget: { maxTrials: "60" } };
  await call("StudyService/CreateStudy", { studyId: "luck", spec });
  // The setting 0.9 had luck once; 0.3 is better.
  const results = [[0.3, 1], [0.3, 1.1], [0.3, 0.9], [0.9, 0.1], [0.9, 3], [0.9, 3.2], [0.9, 2.9], [0.6, 2], [0.6, 2.1], [0.1, 1.5], [0.1, 1.6], [0.2, 1.2]];
  const trials = results.map(([x, loss]) => ({ parameters: { x }, state: "COMPLETE", finalMeasurement: { metrics: { loss } } }));
  await call("StudyService/ImportTrials", { parent: name("luck"), trials, requestId: "luck" });
  const { bestTrial, recommendedTrial, recommendedMean } = await call("StudyService/GetStudy", { name: name("luck"), recommendation: true });
  assert.equal(bestTrial, "4");
  assert.ok(["1", "2", "3"].includes(recommendedTrial), recommendedTrial);
  const page = await open("/studies/default/luck");
  await page.getByText("Results are noisy").waitFor();
  const head = page.locator("header.head");
  await head.getByRole("link", { name: `trial ${recommendedTrial}` }).waitFor();
  const told = await head.locator(".why", { hasText: "Results are noisy" }).textContent();
  assert.ok(told.includes(`take trial ${recommendedTrial}`) && told.includes(String(Number(recommendedMean.toPrecision(5)))) && told.includes("3 results"), told);
  await head.getByText("Recommended setting: x 0.3").waitFor();
  await page.locator(".legend").first().getByText(`recommended, trial ${recommendedTrial}`).waitFor();
  assert.equal(await page.locator(".legend").first().getByText("best, trial 4").count(), 1);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(axe).catch(() => {});
    assert.deepEqual(await page.evaluate(async () => (await window.axe.run()).violations.map((v) => `${v.id} ${v.nodes[0].html}`)), [], colorScheme);
  }
  await page.getByLabel("As it was after trial").fill("5"); // It is recommended now.
  await page.waitForFunction(() => document.querySelector("figcaption")?.textContent?.startsWith("5 trials"));
  assert.equal(await page.locator(".legend").first().getByText("recommended").count(), 0);
  await page.goto(`${server.url}/#/studies/default/luck/trials`);
  await page.locator("tr", { has: page.getByRole("link", { name: recommendedTrial, exact: true }) }).locator(".mark", { hasText: "recommended" }).waitFor();
  assert.equal(await page.locator(".mark", { hasText: "best" }).count(), 1);
  await page.goto(`${server.url}/#/studies/default/luck/trials/${recommendedTrial}`);
  await page.locator("h1 .mark", { hasText: "recommended" }).waitFor();
  await page.goto(`${server.url}/#/studies/default/luck/trials/4`);
  await page.locator("h1 .mark", { hasText: "best" }).waitFor();
  await page.goto(`${server.url}/#/compare?studies=${name("luck")},${name("full")}`);
  await page.locator("td", { hasText: "recommended" }).getByRole("link", { name: `trial ${recommendedTrial}` }).waitFor();
  assert.equal(await page.locator("td", { hasText: "recommended" }).count(), 1);
  await page.close();
  // Where the best trial is recommended, or another one of its setting, there is nothing more to say.
  for (const [id, best] of [["first", [0.1, 0.12, 0.11]], ["last", [0.12, 0.11, 0.1]]]) {
    await call("StudyService/CreateStudy", { studyId: id, spec });
    const all = [...best.map((loss) => [0.3, loss]), [0.9, 3], [0.9, 3.1], [0.6, 2], [0.6, 2.1], [0.1, 1.5], [0.1, 1.6]];
    await call("StudyService/ImportTrials", { parent: name(id), trials: all.map(([x, loss]) => ({ parameters: { x }, state: "COMPLETE", finalMeasurement: { metrics: { loss } } })), requestId: id });
    const now = await call("StudyService/GetStudy", { name: name(id), recommendation: true });
    assert.deepEqual([now.bestTrial, now.recommendedTrial], id === "first" ? ["1", "1"] : ["3", "1"]);
    const quiet = await open("/studies");
    const answered = quiet.waitForResponse((response) => response.url().endsWith("GetStudy") && response.request().postData().includes("recommendation"));
    await quiet.goto(`${server.url}/#/studies/default/${id}`);
    await answered;
    await quiet.waitForSelector("text=Over each parameter");
    await settled(quiet);
    assert.equal(await quiet.getByText("ecommended").count(), 0, id);
    await quiet.close();
    await call("StudyService/DeleteStudy", { name: name(id), requestId: `delete-${id}` });
  }
  await call("StudyService/DeleteStudy", { name: name("luck"), requestId: "delete-luck" });
});

await test("studies are chosen and compared", async () => {
  const page = await open("/studies?find=full");
  await page.getByLabel("compare full").check();
  await page.getByLabel("Find").fill("");
  await page.getByLabel("compare names").check();
  await page.getByRole("link", { name: "Compare 2" }).click();
  await page.waitForSelector("text=In what they differ");
  await page.getByLabel("By").selectOption("time");
  await page.waitForFunction(() => location.hash.includes("by=time"));
  assert.equal(await page.locator(".legend").first().locator("li").count(), 2);
  const { trials } = await call("StudyService/GetStudy", { name: name("full") }), ended = Number(trials.complete) + Number(trials.failed);
  await page.locator("tr", { hasText: "full" }).getByRole("cell", { name: String(ended), exact: true }).waitFor(); // Those that failed, too.
  await call("StudyService/CreateStudy", { studyId: "rises", spec: { space: [{ name: "x", float: { min: 0, max: 1 } }], metrics: [{ name: "loss", goal: "MAXIMIZE" }, { name: "cost", goal: "MINIMIZE" }], algorithm: { random: {} } } });
  const lease = await ask("rises");
  await call("WorkerService/Complete", { trial: lease.trial.name, token: lease.token, measurement: { metrics: { loss: 7, cost: 2 } } });
  await page.goto(`${server.url}/#/compare?studies=${name("rises")},${name("constant")}`);
  const caption = page.locator("figcaption").first();
  await caption.getByText("rises: loss, the first of 2 objectives, 7;").waitFor();
  assert.match(await caption.textContent(), /No curve is better by its place: some of these metrics are minimized, others maximized\./);
  await page.close();
});

await test("a study is shown as it was after any trial", async () => {
  const page = await open("/studies/default/full");
  await settled(page);
  const caption = () => page.locator("figcaption").first().textContent();
  const now = await caption();
  assert.match(now, /^4\d trials/);
  await page.getByLabel("As it was after trial").fill("6");
  await page.waitForFunction(() => document.querySelector("figcaption")?.textContent?.startsWith("6 trials"));
  assert.ok(page.url().includes("at=6"));
  await page.getByRole("button", { name: "Now", exact: true }).click();
  await page.waitForFunction(() => document.querySelector("figcaption")?.textContent?.startsWith("4"));
  assert.equal(await caption(), now);
  await page.close();
});

await test("the metric over two parameters follows the choice of both", async () => {
  const page = await open("/studies/default/full?x=width&y=lr");
  await settled(page);
  await page.waitForSelector("[aria-label^='loss over width and lr']");
  await page.getByLabel("Up").scrollIntoViewIfNeeded();
  await page.getByLabel("Up").selectOption("drop");
  await page.waitForSelector("[aria-label^='loss over width and drop']");
  await page.close();
});

await test("admins make tokens, which are shown once, and end them; the page of one that ended says so", async () => {
  const page = await open("/admin");
  await page.getByLabel("Name", { exact: true }).fill("guest");
  await page.getByLabel("Role").selectOption("VIEWER");
  await page.getByRole("button", { name: "Make a token" }).click();
  const secret = await page.locator(".secret").textContent();
  assert.match(secret, /^lut_/);
  const guest = await open("/studies", { key: secret });
  await guest.waitForSelector("text=guest (viewer)");
  assert.equal(await guest.getByRole("link", { name: "Admin" }).count(), 0);
  await guest.goto(`${server.url}/#/admin`);
  await guest.waitForSelector("text=which may not call AdminService");
  await guest.goto(`${server.url}/#/studies/default/full`);
  await guest.getByRole("button", { name: "Pause" }).click();
  await guest.waitForSelector("text=which may not call StudyService/PauseStudy");
  const row = page.locator("tr", { hasText: "guest" }).first();
  await row.getByRole("button", { name: "Revoke" }).click();
  await row.getByRole("button", { name: "Really end guest?" }).click();
  await guest.waitForSelector("text=Your token was revoked");
  await guest.getByLabel("Token").fill(token);
  await guest.getByRole("button", { name: "Use it" }).click();
  await guest.waitForSelector("text=Over each parameter");
  await guest.close();
  await page.waitForSelector("text=AdminService/RevokeToken");
  // The audit has words for calls, and what they were about by name, with its project.
  const entry = (text) => page.locator("[aria-label=Audit] tr", { hasText: text }).first();
  await entry("Ended a token").getByText("token guest in default").waitFor();
  await entry("Made a token AdminService/CreateToken").getByText("token guest in default").waitFor();
  const refused = entry("Tried to pause a study");
  assert.match(await refused.textContent(), /guest.*StudyService\/PauseStudy.*full in default.*ROLE/);
  assert.equal(await refused.getByRole("link", { name: "full" }).getAttribute("href"), "#/studies/default/full");
  await page.getByLabel("Entries").selectOption("CHANGES");
  await page.waitForFunction(() => !document.querySelector("[aria-label=Audit]").textContent.includes("Tried to pause"));
  await page.close();
});

await test("the page works over TLS", async () => {
  const luthier = (...args) => assert.equal(spawnSync(join(bin, "luthier"), args, { stdio: "ignore" }).status, 0, args.join(" "));
  luthier("admin", "pki", "init", "--out", join(scratch, "pki"));
  luthier("admin", "pki", "issue", "--out", join(scratch, "pki"), "--server", "127.0.0.1");
  const secure = await start(0, "secure", ["--tls-cert", join(scratch, "pki/server.pem"), "--tls-key", join(scratch, "pki/server.key")]);
  assert.match(secure.url, /^https:/);
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  await page.goto(`${secure.url}/#token=${readFileSync(join(scratch, "secure/admin.token"), "utf8").trim()}&/studies`);
  await page.waitForSelector("text=There is no study yet");
  await page.getByRole("link", { name: "State one here" }).click();
  await page.waitForSelector("text=What it means");
  await context.close();
  secure.child.removeAllListeners("exit");
  secure.child.kill("SIGTERM");
  await ended(secure.child);
});

await test("luthier ui shows a database that nobody serves, until it is told to end", async () => {
  const child = spawn(join(bin, "luthier"), ["ui", "--db", join(scratch, "secure")], { stdio: ["ignore", "pipe", "inherit"] });
  const address = await new Promise((resolve) => child.stdout.once("data", (text) => resolve(String(text).trim())));
  assert.match(address, /^http:\/\/127\.0\.0\.1:\d+\/#token=lut_[\w-]+&\/$/);
  const page = await browser.newPage();
  await page.goto(address);
  await page.waitForSelector("text=There is no study yet");
  await page.close();
  child.kill("SIGINT");
  await ended(child);
  assert.equal(child.exitCode, 0);
});

await test("a wrong token is asked for again, and leaves the address bar", async () => {
  const page = await open("/studies", { key: "lut_wrong" });
  await page.waitForSelector("text=The coordinator does not know this token");
  assert.ok(!page.url().includes("token"));
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Use it" }).click();
  await page.waitForSelector("text=/[1-9][0-9]* studies/");
  await page.close();
});

await test("a study that is deleted meanwhile is said to be gone", async () => {
  const page = await open("/studies/default/one");
  await settled(page);
  await call("StudyService/DeleteStudy", { name: name("one"), requestId: "delete-one" });
  await page.waitForSelector("[role=alert]");
  await page.close();
});

await test("an address at which nothing is says what is wrong, and a deleted study can be brought back", async () => {
  const page = await open("/studies/default/full/trials/abc");
  const texts = { "/studies/default/full/trials/abc": "“abc” is no number of a trial", "/studies/default/full/trials/999": "There is no trial 999 in this study, which has", "/studies/default/%zz": "a percent sign is followed by", "/nowhere": "There is no page “nowhere”",
                  "/studies/default": "The address of a study has its project and its id", "/studies/default/full/plots": "A study has no part “plots”", "/studies/default/never": "There is no study never in project default" };
  for (const [path, text] of Object.entries(texts)) {
    await page.goto(`${server.url}/#${path}`);
    await page.getByText(text).waitFor();
    await page.getByRole("link", { name: /all studies/i }).waitFor();
  }
  await study("back", space, 1, () => 1);
  await call("StudyService/DeleteStudy", { name: name("back"), requestId: "delete-back" });
  await page.goto(`${server.url}/#/studies/default/back`);
  await page.getByText("luthier study undelete back").waitFor();
  await page.getByRole("button", { name: "Bring it back" }).click();
  await page.getByRole("heading", { name: /back/ }).waitFor();
  await page.close();
  await call("StudyService/DeleteStudy", { name: name("back"), requestId: "delete-back-again" });
  assert.deepEqual(problems, []);
});

await test("a page says why a model is not drawn, and asks again where the coordinator is busy", async () => {
  const conditional = [{ name: "kind", categorical: { values: ["a", "b"] } }, { name: "x", float: { min: 0, max: 1 } }, { name: "z", float: { min: 0, max: 1 } }, { name: "only_b", float: { min: 0, max: 1 }, condition: { parent: "kind", values: ["b"] } }];
  await told("parents", { algorithm: { bo: { initialPoints: 4 } }, space: conditional }, 10, ({ x }) => ({ metrics: { loss: x } }));
  const page = await open("/studies");
  let busy = true;
  await page.route("**/luthier.v1.StudyService/Predict", async (route) => {
    if (busy) await route.fulfill({ status: 429, body: "busy" });
    else await route.continue();
  });
  await page.goto(`${server.url}/#/studies/default/parents?x=kind&y=x`);
  await page.getByRole("heading", { name: "Over two parameters" }).scrollIntoViewIfNeeded();
  await page.getByText("since the model is not drawn along kind, on which other parameters depend").waitFor();
  await page.getByLabel("Across").selectOption("x");
  await page.getByText("since both axes are the same parameter").waitFor();
  assert.equal(await page.getByText("there is no model").count(), 0);
  await page.getByLabel("Up").selectOption("z");
  await page.getByText("since the coordinator is busy").waitFor({ timeout: 60000 });
  assert.equal(await page.getByText("there is no model").count(), 0);
  busy = false;
  await page.getByText("Colours are what the model expects").waitFor({ timeout: 60000 });
  await page.goto(`${server.url}/#/studies/default/parents/trials`);
  const marks = page.locator(".mark", { hasText: "best" });
  await marks.waitFor();
  assert.equal(await marks.count(), 1);
  await page.getByText("where the model expects the most").waitFor();
  await page.close();
  await call("StudyService/DeleteStudy", { name: name("parents"), requestId: "delete-parents" });
});

await test("an admin sees the studies of all projects, or of one", async () => {
  await call("AdminService/CreateProject", { id: "neighbour", requestId: "project-neighbour" });
  await call("StudyService/CreateStudy", { parent: "projects/neighbour", studyId: "theirs", spec: { space: [{ name: "x", float: { min: 0, max: 1 } }], metric: { name: "loss", goal: "MINIMIZE" } } });
  const page = await open("/studies");
  await page.locator("tr", { hasText: "theirs in neighbour" }).waitFor();
  await page.locator("tr", { hasText: "in default" }).first().waitFor();
  await page.getByLabel("Project").selectOption("neighbour");
  await page.waitForSelector("text=1 study");
  assert.ok(page.url().includes("project=neighbour"));
  await page.getByRole("link", { name: "theirs" }).click();
  await page.waitForFunction(() => location.hash === "#/studies/neighbour/theirs");
  await page.close();
});

await test("another project's studies never reach a token that may not see them", async () => {
  await call("AdminService/CreateProject", { id: "other", requestId: "project-other" });
  const made = await call("AdminService/CreateToken", { name: "stranger", roles: ["VIEWER"], project: "other", requestId: "token-other" });
  const page = await open("/studies", { key: made.secret });
  await page.waitForSelector("text=0 studies");
  await page.close();
});

await test("a coordinator that was killed is waited for, and the page goes on", async () => {
  const page = await open("/studies/default/full/trials?order=-number");
  await settled(page);
  const port = Number(new URL(server.url).port);
  server.child.removeAllListeners("exit");
  server.child.kill("SIGKILL");
  await ended(server.child);
  await page.waitForSelector("text=Connection lost", { timeout: 20000 });
  server = await start(port);
  await page.waitForSelector("text=Connection lost", { state: "detached", timeout: 30000 });
  const lease = await ask("full");
  await page.waitForFunction((n) => [...document.querySelectorAll("td")].some((td) => td.textContent === n), String(lease.trial.number), { timeout: 20000 });
  await page.close();
});

await browser.close();
server.child.removeAllListeners("exit");
server.child.kill("SIGTERM");
await ended(server.child);
rmSync(scratch, { recursive: true, force: true });
console.log(failures.length === 0 ? "the page works" : `${failures.length} failed`);
process.exit(failures.length === 0 ? 0 : 1);
