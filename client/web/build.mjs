// Builds the assets in dist/, which are committed: the same sources give the same bytes.
//   npm ci && npm run build
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const common = {
  bundle: true,
  minify: true,
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  write: false,
  logLevel: "warning",
};

async function bundled(entry, more = {}) {
  const result = await build({ ...common, entryPoints: [entry], format: "iife", ...more });
  return Buffer.from(result.outputFiles[0].contents);
}

rmSync("dist", { recursive: true, force: true });
mkdirSync("dist");
const css = (files) => Promise.all(files.map((file) => bundled(file, { format: undefined }))).then((parts) => Buffer.concat(parts));
const uplot = "node_modules/uplot/dist/uPlot.min.css";
writeFileSync("dist/plot.js", await bundled("src/plot.ts"));
writeFileSync("dist/page.js", await bundled("src/app.tsx", { jsx: "automatic", jsxImportSource: "preact" }));
writeFileSync("dist/page.css", await css([uplot, "src/page.css"]));
writeFileSync("dist/index.html", readFileSync("src/index.html"));
writeFileSync("dist/plot.css", await css([uplot, "src/plot.css"]));

// The licences of what is in the bundles.
const licences = ["preact", "uplot"].map((name) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`;
});
writeFileSync("dist/THIRD_PARTY.txt", licences.join(`\n${"-".repeat(80)}\n\n`));

for (const name of readdirSync("dist").sort()) {
  const bytes = readFileSync(`dist/${name}`);
  console.log(`${createHash("sha256").update(bytes).digest("hex")}  ${bytes.length}  ${name}`);
}
