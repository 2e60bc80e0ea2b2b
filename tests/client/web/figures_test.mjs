// Figures of the page, made of a table that is written by hand. client/plot has the same rules: figure_test.cc.
//   node figures_test.mjs SOURCE_DIR PACKAGES
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";

const [source, packages] = process.argv.slice(2);
const { build } = createRequire(pathToFileURL(path.join(packages, "package.json")))("esbuild");
const nothing = { name: "nothing", setup: (b) => {
  b.onResolve({ filter: /^uplot$/ }, () => ({ path: "uplot", namespace: "nothing" }));
  b.onLoad({ filter: /.*/, namespace: "nothing" }, () => ({ contents: "export default class {}" }));
} };
async function bundled(file) {
  const { outputFiles } = await build({ entryPoints: [path.join(source, "client/web/src", file)], bundle: true, write: false, format: "esm", plugins: [nothing] });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}
const figures = await bundled("figures.ts"), insights = await bundled("insight_figures.ts"), { distinct, eased, linearTicks, logTicks, place, rowsOf, scaleOf } = await bundled("figure.ts");

/** A study of one parameter that minimizes y, with a bound on another metric. */
function subject(values, feasible) {
  const numbers = { "metrics.y": values, "params.x": values.map((_, i) => i / values.length) };
  const table = {
    rows: values.length, version: 1,
    number: (column) => Float64Array.from(numbers[column] ?? values.map(() => NaN)),
    has: () => true, isText: (column) => column === "feasible",
    word: (column, row) => (column === "feasible" ? String(feasible[row]) : ""),
    state: () => "COMPLETE", exists: () => true,
  };
  const spec = { space: [{ name: "x", float: { min: 0, max: 1 } }], metrics: [{ name: "y", goal: "MINIMIZE" }, { name: "ms", atMost: 20 }] };
  return { study: { spec }, table, metric: "y" };
}
const words = await bundled("words.ts");
const layer = (figure, role) => figure.panels[0].layers.find((l) => l.role === role);

{
  const s = subject([3, 1, 2, 0.5], [true, false, true, false]);
  const history = figures.history(s);
  assert.deepEqual([...layer(history, "infeasible").trials], [2, 4], "trials beyond a bound have a mark of their own");
  assert.deepEqual([...layer(history, "trial").trials], [1, 3]);
  assert.deepEqual([...layer(history, "incumbent").x], [1, 3, 4], "the line goes on to the last trial");
  assert.deepEqual([...layer(history, "incumbent").y], [3, 2, 2]);
  assert.equal(history.caption, "4 trials, 2 beyond a bound; the best value is 2 in trial 3. The bound is ms at most 20.");
  const axes = figures.coordinates(s, 12);
  assert.deepEqual([...layer(figures.slice(s, axes[0], null, []), "infeasible").trials], [2, 4]);
  const parallel = figures.parallel(s, axes);
  assert.deepEqual([...new Set(layer(parallel, "infeasible").trials)], [4, 2]);
  assert.match(parallel.caption, /Those of trials beyond a bound are dashed/);
  assert.ok(parallel.panels[0].layers.filter((l) => l.role === "shaded").every((l) => l.trials.every((t) => t === 1 || t === 3)));
}
{
  // Shares of trials, against counting.
  const random = (count) => Array.from({ length: count }, (_, i) => Math.sin(1 + 12.9898 * i) * 43758.5453 % 1);
  for (const [count, goal] of [[1, "MINIMIZE"], [7, "MAXIMIZE"], [2000, "MINIMIZE"], [4321, "MAXIMIZE"], [4321, "MINIMIZE"]]) {
    const numbers = random(count), legal = numbers.map((_, i) => count < 5 || i % 5 > 0), s = subject(numbers, legal);
    s.study.spec.metrics[0].goal = goal;
    numbers[3] = count > 3 ? NaN : numbers[3];
    const counted = numbers.slice(0, count).filter((v, i) => legal[i] && Number.isFinite(v)), as = (bound) => counted.filter((v) => (goal === "MAXIMIZE" ? v >= bound : v <= bound)).length / counted.length;
    const { x, y, count: all } = figures.shares(s);
    assert.equal(all, counted.length);
    assert.ok(x.length <= 2002 && (x.length === counted.length || counted.length > 2000));
    x.forEach((v, i) => assert.ok(Math.abs(as(v) - y[i]) < 1e-12, `${v}: ${y[i]} and not ${as(v)}`));
    assert.equal(x[0], goal === "MAXIMIZE" ? Math.max(...counted) : Math.min(...counted), "the best value is the first");
    assert.equal(y[y.length - 1], 1);
    const figure = figures.edf([{ s, name: "" }]), curve = layer(figure, "incumbent");
    assert.equal(curve.y[0], 0);
    assert.match(figure.caption, goal === "MAXIMIZE" ? /further to the right is better/ : /further to the left is better/);
    if (count > 1) assert.ok(figure.caption.startsWith(`A tenth of ${counted.length} trials is at `));
  }
  const none = figures.edf([{ s: subject([NaN], [true]), name: "" }]);
  assert.deepEqual([none.panels[0].layers.length, none.panels[0].empty], [0, "no trial has a value of y yet"]);
  const two = figures.edf([{ s: subject([1, 2, 3, 4], [true, true, true, true]), name: "a" }, { s: subject([2, 8], [true, false]), name: "b" }]);
  assert.deepEqual(two.panels[0].layers.map((l) => [l.name, l.series]), [["a", 0], ["b", 1]]);
  assert.equal(two.caption, "a: a tenth of 4 trials is at 1 or better, half at 2; b: the only value is 2. A curve further to the left is better. Trials beyond a bound are not in it.");
}
{
  // The trial that is recommended beside the best one has a mark of its own, where it has a place.
  const s = subject([3, 1, 2], [true, true, true]), x = figures.coordinates(s, 1)[0], mark = (figure) => layer(figure, "recommended");
  for (const figure of [figures.history(s), figures.slice(s, x, null, []), figures.contour(s, x, x, null, "")]) assert.equal(mark(figure), undefined);
  s.recommended = 3;
  assert.deepEqual([mark(figures.history(s)).name, mark(figures.history(s)).x[0], mark(figures.history(s)).y[0]], ["recommended, trial 3", 3, 2]);
  for (const figure of [figures.slice(s, x, null, []), figures.contour(s, x, x, null, "")]) assert.equal(mark(figure).x[0], 2 / 3);
  s.recommended = 9; // It came after the table was read.
  assert.equal(mark(figures.history(s)), undefined);
}
{
  // The audit has words for every call.
  const proto = path.join(source, "proto/luthier/v1"), calls = readdirSync(proto).flatMap((file) => {
    const text = readFileSync(path.join(proto, file), "utf8"), service = /^service (\w+)/m.exec(text)?.[1];
    return [...text.matchAll(/^  rpc (\w+)\(/gm)].map((rpc) => `${service}/${rpc[1]}`);
  });
  assert.ok(calls.length > 40);
  for (const method of calls) {
    assert.match(words.deedOf(method, "OK"), /^[A-Z]\w+ /, `${method} has no words`);
    assert.match(words.deedOf(method, "ROLE"), /^Tried to [a-z]+ /);
  }
  assert.equal(words.deedOf("StudyService/DeleteStudy", "OK"), "Deleted a study");
  for (const unknown of ["StudyService/Other", "constructor", "", "__proto__"]) assert.equal(words.deedOf(unknown, "OK"), "");
}
{
  const history = figures.history(subject([3, 1], [false, false]));
  assert.equal(history.caption, "2 trials, 2 beyond a bound; no trial is feasible, so that none is the best. The bound is ms at most 20.");
  assert.equal(layer(history, "incumbent"), undefined);
}
{
  const values = [1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 90, 91];
  const history = figures.history(subject(values, values.map((v) => v > 50)));
  assert.deepEqual([...layer(history, "trial").trials], [8, 9], "the frame shows those within the bounds");
  assert.equal(layer(history, "outside"), undefined);
  assert.ok(history.panels[0].y.min < 1);
}
{
  assert.deepEqual(logTicks(16, 512, 12), [20, 50, 100, 200, 500], "a logarithmic axis has round ticks, wherever it begins");
  assert.deepEqual(logTicks(16, 512, 4), [30, 100, 300]);
  assert.deepEqual(logTicks(1e-5, 0.1, 6), [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]);
  assert.deepEqual(logTicks(1e-5, 0.1, 3), [1e-4, 1e-2]);
  assert.deepEqual(logTicks(100, 130, 6), [100, 105, 110, 115, 120, 125, 130], "a short one has equal distances");
  for (const [low, high] of [[1e-300, 1e300], [5e-324, 1.7e308], [1, 1.0000001], [2, 9], [0.011, 0.099]]) {
    for (const most of [1, 2, 5, 20]) {
      const ticks = logTicks(low, high, most);
      assert.ok(ticks.length >= 1 && ticks.length <= Math.max(3, most + 2), `${low} to ${high}: ${ticks}`);
      assert.ok(ticks.every((v) => v >= low * 0.999999 && v <= high * 1.000001), `${low} to ${high}: ${ticks}`);
    }
  }
}
{
  const same = ["label number 1 of many", "label number 27 of many", "label number 3"];
  assert.deepEqual(distinct(same, 12), ["…1 of many", "…27 of many", "…3"], "what all names share at their beginning goes first");
  assert.deepEqual(distinct([...same, "loss"], 12), ["…1 of many", "…27 of many", "…3", "loss"], "a short one does not count");
  assert.deepEqual(distinct(["a", "b"], 12), ["a", "b"]);
  assert.deepEqual(distinct(["one long name alone"], 9), ["one …lone"]);
  assert.ok(distinct(["🎻".repeat(30) + "1", "🎻".repeat(30) + "2"], 9).every((text) => [...text].length <= 9));
  assert.deepEqual(distinct(["x".repeat(30), "x".repeat(30)], 9).map((text) => text.length), [2, 2], "names that are equal stay equal, and something of them stays");
}
{
  const huge = [1.7e308, -1.7e308, 1e308, 0], s = subject(huge, huge.map(() => true));
  const history = figures.history(s), { y } = history.panels[0];
  assert.ok(y.min < -1.6e308 && y.max > 1.6e308 && Number.isFinite(y.min) && Number.isFinite(y.max), `from ${y.min} to ${y.max}`);
  assert.deepEqual([...layer(history, "trial").trials], [1, 2, 3, 4], "numbers beyond 1e300 are in the frame");
  assert.ok(Math.abs(place(y, 0) - 0.5) < 0.1 && place(y, 1.7e308) > 0.9);
  const moved = eased(y);
  assert.match(moved.axis.label, / \/ 1e300$/);
  assert.ok(Math.abs(moved.move(1e308) - 1e8) < 1);
}
{
  const near = eased({ label: "y", min: 1000000.001, max: 1000000.009 });
  assert.equal(near.axis.label, "y − 1000000");
  assert.ok(Math.abs(near.move(1000000.005) - 0.005) < 1e-9);
  assert.equal(eased({ label: "y", min: 0.5, max: 0.6 }).move, null);
  assert.equal(eased({ label: "", min: 1e300, max: 1e300 * (1 + 1e-12), ticks: [] }).move, null, "names have no units");
  assert.match(eased({ label: "y", min: 0, max: 5e-320 }).axis.label, /× 1e300$/);
}
{
  const values = [3, 1, 2, 0.5], s = subject(values, values.map(() => true));
  const [x] = figures.coordinates(s, 12);
  assert.match(figures.contour(s, x, x, null, "").caption, /until the model has answered/);
  assert.match(figures.contour(s, x, x, null, "since the algorithm has no model").caption, /complete trials, since the algorithm has no model\./);
}

/** A study that minimizes y in a table of columns by their names; states by row, "" where the trial is not there yet. */
function tabled(columns, states, spec = {}) {
  const rows = states.length, text = (column) => typeof columns[column]?.[0] === "string";
  const table = {
    rows, version: 1, number: (column) => Float64Array.from(text(column) ? [] : columns[column] ?? states.map(() => NaN)),
    has: (column) => column in columns, isText: text, word: (column, row) => columns[column]?.[row] ?? "", wordsIn: (column) => columns[column] ?? [],
    state: (row) => states[row], exists: (row) => states[row] !== "",
  };
  return { study: { spec: { space: [{ name: "x", float: { min: 0, max: 1 } }], metric: { name: "y", goal: "MINIMIZE" }, ...spec } }, table, metric: "y" };
}
const curve = (number, steps, values, more = {}) => ({ number: String(number), state: "PRUNED", measurements: steps.map((step, i) => ({ step: String(step), metrics: { y: values[i] } })), ...more });

{
  // A trial of several attempts is one line that ends at its result; trials that are left over do not move the median.
  const s = tabled({ "metrics.y": [5, 4, 0.5, 2, 3, 3] }, ["PRUNED", "PRUNED", "PRUNED", "COMPLETE", "PRUNED", "PRUNED"]);
  const went = curve(4, [1, 2, 3, 4], [9, 6, 5, 4], { state: "COMPLETE", finalMeasurement: { step: "9", metrics: { y: 2 } }, provenance: { resource: "1" }, promotions: [{ resource: "3" }, { resource: "9" }] });
  const trials = [went, curve(1, [1], [5]), curve(2, [1, 3], [8, 4]), curve(3, [1, 3], [4, 0.5]), curve(5, [1, 2], [1, 3]), curve(6, [1], [3])];
  const made = figures.curves(s, trials), [panel] = made.panels;
  const best = layer(made, "best");
  assert.deepEqual([...best.x], [1, 2, 3, 4, 9], "the last point is the result");
  assert.deepEqual([best.y[4], best.name], [2, "best, trial 4"]);
  assert.deepEqual([...layer(made, "reference").x], [1, 3, 9], "rungs");
  assert.equal(panel.x.log, true, "rungs are powers");
  const median = layer(made, "other");
  // At step 2 four of six are left: 6, (8 + 4) / 2, (4 + 0.5) / 2 and 3; at 3 three; at 4 one.
  assert.deepEqual([[...median.x], [...median.y]], [[1, 2, 3], [5, 6, 4]]);
  assert.match(made.caption, /median ends where fewer than half/);
  assert.deepEqual(figures.medianCurve([1, 2, 3, 4, 5].map((v) => ({ x: [1, 2], y: [v, v] }))), { x: [1, 2], y: [3, 3] });
  assert.deepEqual(figures.medianCurve([{ x: [1], y: [1] }, { x: [1], y: [2] }]).x, [], "two are too few");

  const history = figures.history(s);
  assert.deepEqual([...layer(history, "incumbent").x], [4, 6], "one complete trial has a line, too");
  assert.match(history.caption, /^6 trials, 5 stopped early; the best value is 2 in trial 4\. Values of trials that were stopped early are from an earlier step/);
  assert.doesNotMatch(figures.history(tabled({ "metrics.y": [5, 2] }, ["PRUNED", "COMPLETE"])).caption, /earlier step/);
}
{
  // Slopes of trials that ended later are not those of the past.
  const s = tabled({ "metrics.y": [3, 2, 1], "params.x": [0.2, 0.5, 0.7] }, ["COMPLETE", "COMPLETE", ""]);
  const [x] = figures.coordinates(s, 12);
  const slopes = [1, 2, 3].map((trial) => ({ trial, value: 4 - trial, parameters: { x: 0.5 }, gradient: new Map([["x", 1]]) }));
  assert.deepEqual([...layer(figures.slice(s, x, null, slopes), "gradient").trials], [1, 2]);
}
{
  // The front: what lies outside of the frame is at its edge, and the caption says what is good and what is allowed.
  const spec = { metrics: [{ name: "y", goal: "MINIMIZE" }, { name: "z", goal: "MAXIMIZE" }, { name: "ms", atMost: 20 }] };
  const y = [1, 2, 3, 2.5, 2, 500, 2], z = [1, 2, 3, 1, 0, 2, -900];
  const s = tabled({ "metrics.y": y, "metrics.z": z, feasible: ["true", "true", "true", "true", "false", "true", "false"] }, y.map(() => "COMPLETE"), spec);
  const made = figures.front(s, "y", "z"), [panel] = made.panels;
  const within = (l) => l.x.every((v) => v >= panel.x.min && v <= panel.x.max) && l.y.every((v) => v >= panel.y.min && v <= panel.y.max);
  assert.deepEqual([...layer(made, "infeasible").trials], [5, 7]);
  assert.ok(within(layer(made, "infeasible")), "squares are in the frame");
  assert.deepEqual([...layer(made, "outside").trials], [6]);
  assert.ok(within(layer(made, "outside")));
  assert.match(made.caption, /best corner is the upper left one/);
  assert.match(made.caption, /2 trials are beyond a bound, of which 1 is drawn at the edge .* The bound is ms at most 20\./);
  assert.ok(panel.layers.every((l) => l.name !== ""), "all that is drawn is in the legend");
  const bounded = figures.front(tabled({ "metrics.y": y, "metrics.z": z }, y.map(() => "COMPLETE"), { metrics: [{ name: "y", goal: "MINIMIZE", atMost: 2.7 }, { name: "z", goal: "MAXIMIZE" }] }), "y", "z");
  assert.deepEqual([...layer(bounded, "reference").x], [2.7, 2.7], "a bound of what is shown is a line");
  const history = figures.history(s).panels[0].layers.map((l) => l.role);
  assert.ok(history.indexOf("infeasible") > history.indexOf("incumbent"), "the line does not hide squares");
}
{
  // A pause is a gap, and of a trial that ended long after its only attempt that attempt alone is drawn.
  const at = (second) => new Date(1e12 + 1000 * second).toISOString(), begin = 1e9;
  const s = tabled({ start_time: [begin, begin + 2], end_time: [begin + 100, begin + 100], seconds: [4, 3], attempts: [2, 1], worker: ["w", "w"] }, ["COMPLETE", "PRUNED"]);
  const several = [{ number: "1", attempts: [{ worker: "w", startTime: at(0), endTime: at(2), outcome: "PAUSED" }, { worker: "v", startTime: at(98), endTime: at(100), outcome: "COMPLETE" }] }];
  const boxes = figures.timeline(s, several).panels[0].layers.flatMap((l) => Array.from(l.x, (x, i) => [l.name, l.trials[i], x, l.x2[i], Math.round(l.y[i] + 0.38)]));
  assert.deepEqual(boxes, [["ran until a pause", 1, 0, 2, 0], ["complete", 1, 98, 100, 1], ["stopped early", 2, 2, 5, 0]]);
  assert.match(figures.timeline(s).caption, /1 trials of several attempts are drawn as one box/);
}
{
  // Of several objectives each has its own expectation.
  const s = tabled({}, [], { metrics: [{ name: "y", goal: "MINIMIZE" }, { name: "z", goal: "MAXIMIZE" }] });
  const trials = [1, 2, 3].map((n) => ({ number: String(n), provenance: { details: { "mean.y": n, "sd.y": 0.1, "mean.z": -n, "sd.z": 1 } }, finalMeasurement: { metrics: { y: n + 0.1, z: 4 } } }));
  assert.match(insights.expected(s, trials).caption, /^3 of 3 values/);
  assert.match(insights.expected({ ...s, metric: "z" }, trials).caption, /^0 of 3 values/);
}
{
  // Trials that lack a parameter, or were stopped early.
  const s = tabled({ "metrics.y": [4, 1, 3], "params.x": [0.1, 0.5, NaN] }, ["COMPLETE", "PRUNED", "COMPLETE"]);
  const [x] = figures.coordinates(s, 12);
  assert.deepEqual([...layer(figures.slice(s, x, null, []), "pruned").trials], [2]);
  assert.deepEqual([...layer(figures.slice(s, x, null, []), "shaded").trials], [1]);
  const contour = figures.contour(s, x, x, null, "");
  assert.deepEqual([...layer(contour, "pruned").trials], [2]);
  assert.deepEqual([[...layer(contour, "trial").trials], [...layer(contour, "trial").colour]], [[1], [4]], "colours are of complete trials");
  const parallel = figures.parallel(s, [x]), drawn = parallel.panels[0].layers.filter((l) => l.trials !== undefined);
  const reached = drawn.flatMap((l) => Array.from(l.x, (at, i) => (at === 1 && Number.isFinite(l.y[i]) ? [l.trials[i]] : [])).flat());
  assert.deepEqual(reached.sort(), [1, 2, 3], "every line reaches the axis of the metric");
  assert.ok(!drawn.some((l) => Array.from(l.x).some((at, i) => at === 0 && l.trials[i] === 3)));
  assert.deepEqual([...new Set(layer(parallel, "pruned").trials)], [2]);
  assert.equal(parallel.caption, "A line for each of 3 trials, the stronger the better. Those of trials that were stopped early have values of an earlier step, and another dash. A line passes by the axes of parameters that its trial does not have.");
}
{
  // Of many trials those that are drawn are the best complete ones and some of all others.
  const count = 4000, y = Array.from({ length: count }, (_, i) => i), s = tabled({ "metrics.y": y, "params.x": y.map((v) => v / count) }, y.map((v) => (v < 1000 ? "PRUNED" : "COMPLETE")));
  const parallel = figures.parallel(s, figures.coordinates(s, 12));
  const shaded = new Set(parallel.panels[0].layers.filter((l) => l.role === "shaded").flatMap((l) => [...l.trials]));
  assert.ok([1001, 1500, 2000].every((n) => shaded.has(n)) && layer(parallel, "pruned").x.length > 100);
  assert.match(parallel.caption, /^A line for each of 1500 of 4000 trials/);
}
{
  // Values that are all alike are the only number of axes and colours.
  const s = tabled({ "metrics.y": [2, 2], "params.x": [0.1, 0.5] }, ["COMPLETE", "COMPLETE"]), [x] = figures.coordinates(s, 12);
  assert.deepEqual(figures.history(s).panels[0].y.ticks, [{ at: 2, text: "2" }]);
  assert.deepEqual(scaleOf(figures.contour(s, x, x, null, "").panels[0]), [2, 2]);
  assert.equal(figures.history(tabled({ "metrics.y": [2, 3] }, ["COMPLETE", "COMPLETE"])).panels[0].y.ticks, undefined);
}
{
  // Paused trials have their values so far in the history alone.
  const s = tabled({ "metrics.y": [4, 1], "params.x": [0.1, 0.5] }, ["COMPLETE", "PAUSED"]), [x] = figures.coordinates(s, 12), history = figures.history(s);
  assert.deepEqual([...layer(history, "open").trials], [2]);
  assert.deepEqual([...layer(history, "best").trials], [1]);
  assert.equal(history.caption, "2 trials, 1 paused; the best value is 4 in trial 1.");
  assert.equal(layer(figures.slice(s, x, null, []), "open"), undefined);
  assert.equal(figures.anyResult(tabled({ "metrics.y": [1] }, ["PAUSED"])), false);
}
{
  // Where all trials failed the history has their crosses.
  const history = figures.history(tabled({ "metrics.y": [NaN, NaN] }, ["FAILED", "FAILED"])), { y } = history.panels[0];
  assert.deepEqual([...layer(history, "failed").trials], [1, 2]);
  assert.ok(layer(history, "failed").y.every((v) => v > y.min && v < y.max) && y.ticks.every((t) => t.text === ""));
}
{
  assert.deepEqual(linearTicks(-1.8e273, 3.4e273, 5), [0, 2e273], "numbers of any size have ticks");
  assert.deepEqual(linearTicks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  for (const [low, high] of [[-1e299, 1e299], [1e-300, 3e-300], [0, 5e-324], [-3, 7e20]]) {
    const ticks = linearTicks(low, high, 6);
    assert.ok(ticks.length >= 2 && ticks.length <= 8 && ticks.every((v) => v >= low - 1e-9 * Math.abs(low) && v <= high * 1.000001), `${low} to ${high}: ${ticks}`);
  }
}
{
  // Why nothing runs.
  const words = await bundled("words.ts"), now = Date.parse("2026-01-01T00:10:00Z");
  const study = (more) => ({ state: "ACTIVE", spec: { objective: { command: {} } }, trials: {}, updateTime: "2026-01-01T00:00:00Z", ...more });
  const busy = "waiting: each worker of the default pool of project default is busy with other studies, as w is", none = "waiting: no worker of pool a100 of project default has asked since the coordinator started";
  const waits = (more) => words.waitsOf(study(more), now);
  assert.equal(waits({ stateReason: busy }).brief, "taking turns with other studies");
  assert.equal(waits({ stateReason: busy }).cause, false, "nothing is to be done");
  assert.equal(waits({ stateReason: none, trials: { running: "1" } }), null, "something runs");
  assert.deepEqual(waits({ stateReason: none, spec: { objective: { command: {} }, pool: "a100" } }), { brief: "no worker of pool a100", full: none, cause: true });
  assert.equal(waits({ stateReason: none, trials: { complete: "3" }, updateTime: "2026-01-01T00:09:30Z" }), null, "a trial ended within the last minute");
  assert.match(waits({ spec: {} }).full, /No worker takes trials of this study: a program asks/);
  assert.equal(waits({ spec: {}, trials: { complete: "1" } }), null);
  assert.equal(words.workerCommand(study({ spec: { pool: "a100" } }), "box"), "luthier-worker --server box:7790 --pool a100");
  assert.equal(words.algorithmOf({ spec: { algorithm: { auto: {} } }, resolvedAlgorithm: { cmaEs: {} } }), "cma_es");
}
{
  // Trials of expired leases, in studies that come first, take no place of those that a worker holds.
  const { Held } = await bundled("held.ts"), runs = (number, worker) => ({ number: String(number), attempts: [{ worker: "before" }, { worker }] });
  const held = new Held([{ name: "w", leases: 2 }, { name: "idle" }]);
  held.add("a", [1, 2, 3].map((n) => runs(n, "gone")).concat([runs(4, "idle")]));
  assert.equal(held.misses, true, "w holds two, wherever they are");
  held.add("z", [runs(7, "w"), runs(8, "w")]);
  assert.deepEqual(held.of("w"), [{ study: "z", number: 7 }, { study: "z", number: 8 }]);
  assert.deepEqual([held.of("gone"), held.of("idle"), held.misses], [[], [], false]);
}
{
  // What one result is off by widens what the model expected of a trial, for bars, counts and words.
  const s = tabled({}, []), trial = (n, came, noise) => ({ number: String(n), provenance: { details: { predicted_mean: 1, predicted_sd: 0.3, ...(noise ? { noise_sd: noise } : {}) } }, finalMeasurement: { metrics: { y: came } } });
  const noisy = insights.expected(s, [trial(1, 1.9, 0.4), trial(2, 2.1, 0.4), trial(3, 1.9)]);
  assert.match(noisy.caption, /^1 of 3 values .* Results are noisy, so that a deviation is that of the expectation and that of one result together\./);
  const bars = layer(noisy, "model"), of = Object.fromEntries(Array.from(bars.y, (y, i) => [`${y} ${bars.x2[i].toFixed(6)}`, bars.x[i]]));
  assert.ok(Math.abs(of["2.1 2.000000"]) < 1e-12 && "1.9 1.600000" in of, "two deviations are 1.0 where results are noisy, else 0.6");
  assert.doesNotMatch(insights.expected(s, [trial(1, 1.1)]).caption, /noisy/);
  assert.equal(insights.deviationOf({ predicted_mean: 0, noise_sd: 0.4 }, 0.3), 0.5);
  assert.equal(insights.deviationOf({ "mean.y": 0, noise_sd: 0.4 }, 0.3), 0.3, "the noise is that of the only objective");
}
{
  // Trials that run have the rank of the last finite number that they reported, by the study's goal.
  for (const [goal, order] of [["MINIMIZE", [3, 1, 2]], ["MAXIMIZE", [2, 1, 3]]]) {
    const s = tabled({}, ["RUNNING", "RUNNING", "RUNNING"], { metric: { name: "y", goal } });
    const trials = [[9, 5], [1, 8, NaN], [4, 2]].map((values, i) => curve(i + 1, values.map((_, k) => k + 1), values, { state: "RUNNING" }));
    const lines = figures.curves(s, trials).panels[0].layers.filter((l) => l.role === "shaded").sort((a, b) => b.shade - a.shade);
    assert.deepEqual(lines.map((l) => [l.trials[0], l.shade]), order.map((n, i) => [n, 1 - i / 2]), goal);
  }
}
{
  // Where trials run and none has ended, the time is that up to now.
  const s = tabled({ start_time: [1e9, 1e9, 1e9 + 30], seconds: [NaN, 0, NaN], attempts: [1, 1, 1], worker: ["w", "w", "v"] }, ["RUNNING", "RUNNING", "RUNNING"]);
  const [boxes] = figures.timeline(s, [], 1e9 + 90).panels[0].layers;
  assert.deepEqual([[...boxes.trials], [...boxes.x], [...boxes.x2]], [[1, 2, 3], [0, 0, 30], [90, 90, 90]]);
  // What one worker runs at a time is in its row, and nothing hides anything.
  assert.ok(boxes.y2[0] < boxes.y[1] && boxes.y[0] >= -0.4 && boxes.y2[1] <= 0.4, `${boxes.y} to ${boxes.y2}`);
  assert.deepEqual(rowsOf(figures.timeline(s, [], 1e9 + 90).panels[0], 9).slice(1).map((row) => row[2]), ["w", "w", "v"]);
  assert.deepEqual([boxes.y[2], boxes.y2[2]], [1 - 0.38, 1 + 0.38], "a row of one box is full");
}
{
  // Values of trials that did not go on to their end are in the shares, and the caption counts them.
  const s = tabled({ "metrics.y": [1, 2, 3, 4] }, ["COMPLETE", "PRUNED", "PRUNED", "PAUSED"]);
  assert.equal(figures.edf([{ s, name: "" }]).caption, "A tenth of 4 trials (2 stopped early, 1 paused) is at 1 or better, half at 2. A curve further to the left is better. Values of trials that did not go on to their end are from an earlier step.");
  assert.match(figures.edf([{ s, name: "a" }, { s: tabled({ "metrics.y": [1, 2] }, ["COMPLETE", "COMPLETE"]), name: "b" }]).caption, /^a: a tenth of 4 trials \(2 stopped early, 1 paused\) is .*; b: a tenth of 2 trials is /);
}
{
  // Studies that are compared may have other goals and metrics; what the frame leaves out is said.
  const of = (goal, name, values) => ({ ...tabled({ [`metrics.${name}`]: values }, values.map(() => "COMPLETE"), { metric: { name, goal } }), metric: name });
  const low = of("MINIMIZE", "y", [1, 2, 3]), high = of("MAXIMIZE", "y", [5, 6, 700]), other = of("MINIMIZE", "z", [1, 2, 3]);
  assert.equal(figures.betterWords([low], "y"), " A curve further down is better.");
  assert.equal(figures.betterWords([high, high], "x"), " A curve further to the right is better.");
  assert.match(figures.betterWords([low, high], "x"), /^ No curve is better by its place/);
  assert.match(figures.betterWords([low, other], "y"), /^ Their metrics differ/);
  const mixed = figures.edf([{ s: low, name: "a" }, { s: high, name: "b" }]), [first, second] = mixed.panels[0].layers;
  assert.ok(mixed.panels[0].x.min < 1 && mixed.panels[0].x.max > 700, "of different goals all is within the frame");
  assert.deepEqual([[...first.x].slice(0, 4), [...second.x].slice(0, 4)], [[1, 1, 2, 3], [700, 700, 6, 5]]);
  assert.ok(first.x.at(-1) > 700 && second.x.at(-1) < 1, "each goes on to the end that is worse for it");
  assert.equal(figures.sharedAxis([low, other], [[1], [2]]).label, "y, z");
  assert.equal(figures.cutWords({ label: "", max: 10 }, [{ name: "a", values: [1, 20, NaN] }, { name: "b", values: [3] }], "steps"), " The frame shows values to 10: 1 of 3 steps of a lie outside.");
  assert.equal(figures.cutWords({ label: "" }, [{ name: "a", values: [1, 1e300] }], "steps"), "");
}
{
  // Axes of parallel coordinates end where ranges and values do, and say so.
  const s = tabled({ "metrics.y": [0.2, 0.7, 0.5], "params.x": [20, 500, 1000] }, ["COMPLETE", "COMPLETE", "COMPLETE"], { space: [{ name: "x", int: { min: "16", max: "1024", scale: "LOG" } }] });
  const notes = figures.parallel(s, figures.coordinates(s, 12)).panels[0].notes.map((note) => note.text);
  assert.deepEqual(notes, ["16", "1024", "0.2", "0.7"]);
}
{
  // Controls of writing directions are shown and not obeyed, in texts of figures, too; other characters stay.
  const { visible, visibleAll } = await bundled("visible.ts"), { legendOf } = await bundled("figure.ts");
  assert.equal(visible("a\u202eb\u2066\u061c"), "a\\u202eb\\u2066\\u061c");
  for (const text of ["", "plain", "שלום 🎻", "a\u200db"]) assert.equal(visible(text), text);
  assert.deepEqual(visibleAll(["\u202e", 1, null, ["x\u200f"]]), ["\\u202e", 1, null, ["x\\u200f"]]);
  assert.equal(legendOf({ layers: [{ name: "\u202eevil", role: "trial", mark: "points" }] })[0].name, "\\u202eevil");
}
console.log("figures keep to the bounds");
