// Makes the pictures of README.md and docs/guide/page.md: a study of 40 trials, asked and told here, in Debian's Chromium.
//   node screenshots.mjs BIN_DIR MODULES_DIR OUT_DIR
// BIN_DIR has luthierd; MODULES_DIR has playwright-core: build/peers/web/node_modules.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [bin, modules, out] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const scratch = mkdtempSync(join(tmpdir(), "luthier-pictures-"));
const server = spawn(join(bin, "luthierd"), ["--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--data-dir", join(scratch, "data")], { stdio: ["ignore", "ignore", "pipe"] });
const url = await new Promise((resolve) => {
  let log = "";
  server.stderr.on("data", (text) => {
    log += text;
    const found = /url=(http:\/\/127\.0\.0\.1:\d+)/.exec(log);
    if (found !== null) resolve(found[1]);
  });
});
const token = readFileSync(join(scratch, "data/admin.token"), "utf8").trim();

async function call(method, body) {
  const answer = await fetch(`${url}/luthier.v1.${method}`, { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` }, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

await call("StudyService/CreateStudy", { studyId: "digits", spec: {
  displayName: "Digits, a small network", seed: "4", algorithm: { bo: {} }, budget: { maxTrials: "60" }, metric: { name: "loss", goal: "MINIMIZE" },
  space: [{ name: "lr", float: { min: 1e-5, max: 0.1, scale: "LOG" } }, { name: "dropout", float: { min: 0, max: 0.8 } }, { name: "width", int: { min: "16", max: "512", scale: "LOG" } }, { name: "optimizer", categorical: { values: ["adam", "sgd"] } }],
} });
for (let i = 0; i < 40; ++i) {
  const { trial, token: lease } = (await call("WorkerService/Suggest", { study: "projects/default/studies/digits", worker: `gpu${1 + (i % 2)}`, count: 1, requestId: `ask-${i}` })).leases[0];
  const { lr, dropout, width, optimizer } = trial.parameters;
  const best = optimizer === "adam" ? -3 : -2;
  const loss = 0.08 + 0.06 * (Math.log10(lr) - best) ** 2 + 0.5 * (dropout - 0.25) ** 2 + 0.02 * (Math.log2(width) - 7.5) ** 2 + (optimizer === "adam" ? 0 : 0.04);
  const curve = [1, 2, 4, 8, 16].map((step) => ({ step: String(step), metrics: { loss: loss + 0.9 * Math.exp(-step / 4) } }));
  await call("WorkerService/Report", { trial: trial.name, token: lease, measurements: curve });
  if (i % 13 === 12) await call("WorkerService/Fail", { trial: trial.name, token: lease, failure: { kind: "CONFIG", reason: "DIVERGED", message: "loss is not finite" } });
  else await call("WorkerService/Complete", { trial: trial.name, token: lease, measurement: { step: "20", metrics: { loss, error: 0.3 * loss } } });
}

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"] });
const { bestTrial } = await call("StudyService/GetStudy", { name: "projects/default/studies/digits" });
const pictures = [
  ["studies/default/digits", "page_study", [860, 1610], "text=mean of the model"],
  ["studies/default/digits/trials?order=metrics.loss", "page_trials", [860, 480], "td a"],
  [`studies/default/digits/trials/${bestTrial}`, "page_trial", [860, 900], "text=Why this point"],
  ["new", "page_new", [1280, 900], "text=What it means"],
];
for (const [path, picture, [width, height], shown] of pictures) {
  const page = await browser.newPage({ viewport: { width, height }, deviceScaleFactor: 0.8 });
  await page.goto(`${url}/#token=${token}&/${path}`);
  await page.waitForSelector(shown);
  await page.waitForTimeout(500);
  await page.screenshot({ path: join(out, `${picture}.png`) });
  await page.close();
}
await browser.close();
server.kill("SIGTERM");
await new Promise((resolve) => server.on("exit", resolve));
rmSync(scratch, { recursive: true, force: true });
