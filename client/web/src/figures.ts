// Figures of a study that is open in the page. client/plot makes the same for files; axes follow the same rules.
import type { Json } from "./api";
import type { Axis, Figure, Layer, Panel } from "./figure";
import { distinct, place, short, widened } from "./figure";
import type { Table } from "./columns";
import { metricsOf } from "./metrics";

const FEW = 2000; // Marks that may lie over a line.
const BEST_LINES = 1000, OTHER_LINES = 500, SHADES = 8;

export interface Subject {
  study: Json;
  table: Table;
  metric: string;
  recommended?: number; // The trial that is recommended beside the best one, where results are noisy; 0: none is.
}

const maximizes = (s: Subject, metric: string): boolean => metricsOf(s.study).some((m) => m.name === metric && m.goal === "MAXIMIZE");
export const maximize = (s: Subject): boolean => maximizes(s, s.metric);
export const values = (s: Subject): Float64Array => s.table.number(`metrics.${s.metric}`);

/** Returns whether the trial in a row meets the bounds of all metrics. */
function bounds(s: Subject): (row: number) => boolean {
  if (!s.table.has("feasible")) return () => true;
  if (s.table.isText("feasible")) return (row) => s.table.word("feasible", row) !== "false";
  const number = s.table.number("feasible");
  return (row) => number[row] !== 0;
}

// What figures ask of each trial, found once for all of them.
const NONE = 0, COMPLETE = 1, BEYOND = 2, PRUNED = 3, FAILED = 4, PAUSED = 5; // BEYOND: complete, and beyond a bound.
interface Results { stamp: string; value: Float64Array; kinds: Uint8Array; best: number; all: number; failed: number; beyond: number; pruned: number; paused: number; better: boolean }
const known = new WeakMap<Table, Results>();

function results(s: Subject): Results {
  const stamp = `${s.table.version} ${s.metric}`, before = known.get(s.table);
  if (before !== undefined && before.stamp === stamp) return before;
  const rows = s.table.rows, value = values(s), kinds = new Uint8Array(rows), most = maximize(s), meets = bounds(s);
  let best = -1, all = 0, failed = 0, beyond = 0, pruned = 0, paused = 0, least = NaN;
  for (let row = 0; row < rows; ++row) {
    const state = s.table.state(row), finite = Number.isFinite(value[row]);
    if (state !== "" && state !== "DELETED") ++all;
    if (state === "FAILED") ++failed;
    kinds[row] = state === "FAILED" ? FAILED : !finite ? NONE : state === "PRUNED" ? PRUNED : state === "PAUSED" ? PAUSED : state !== "COMPLETE" ? NONE : meets(row) ? COMPLETE : BEYOND;
    if (kinds[row] === BEYOND) ++beyond;
    if (state === "PRUNED") ++pruned;
    if (state === "PAUSED") ++paused;
    if (kinds[row] === PRUNED && !(most ? value[row]! <= least : value[row]! >= least)) least = value[row]!;
    if (kinds[row] === COMPLETE && (best < 0 || (most ? value[row]! > value[best]! : value[row]! < value[best]!))) best = row;
  }
  // True if a trial that was stopped early has a better value than the best one.
  const better = best >= 0 && (most ? least > value[best]! : least < value[best]!);
  const found = { stamp, value, kinds, best, all, failed, beyond, pruned, paused, better };
  known.set(s.table, found);
  return found;
}

const hasResult = (kind: number | undefined): boolean => kind === COMPLETE || kind === BEYOND || kind === PRUNED;

/** Returns whether any trial has a result, so that there is something to be seen. */
export const anyResult = (s: Subject): boolean => groupsOf(s, axisOf(s), false).some((group) => group.role !== "failed" && group.role !== "open" && group.trials.length > 0);

/** Returns the row of the best complete trial; -1: there is none. */
export const bestRow = (s: Subject): number => results(s).best;

/** Returns an axis on which most values are seen well, and the best always: plot::MetricAxis. */
export function metricAxis(label: string, given: ArrayLike<number>, most: boolean): Axis {
  const finite = new Float64Array(given.length);
  let count = 0, unit = 1;
  for (let i = 0; i < given.length; ++i) {
    const v = given[i]!;
    if (!Number.isFinite(v)) continue;
    finite[count++] = v;
    if (Math.abs(v) > 1e300) unit = 1e10; // Numbers near the largest that there are would not be subtracted.
  }
  const sorted = finite.subarray(0, count).sort();
  if (unit !== 1) for (let i = 0; i < count; ++i) sorted[i]! /= unit;
  const axis: Axis = { label };
  if (sorted.length === 0) return axis;
  const only = sorted[0]! * unit;
  // There is no other number to tell; those whose texts would be in units of 1e300 are drawn like others.
  if (sorted[0] === sorted[sorted.length - 1] && unit === 1 && (only === 0 || Math.abs(only) > 1e-300) && Math.abs(only) < 1e300) axis.ticks = [{ at: only, text: short(only) }];
  const quantile = (share: number) => sorted[Math.floor(share * (sorted.length - 1) + 0.5)]!;
  const least = sorted[0]!, largest = sorted[sorted.length - 1]!;
  axis.log = !most && least > 0 && quantile(0.5) / least > 300;
  const scaled = (v: number) => (axis.log ? Math.log(v) : v), whole = (v: number) => Math.min(Number.MAX_VALUE, Math.max(-Number.MAX_VALUE, v * unit));
  const best = scaled(most ? largest : least), worst = scaled(most ? least : largest);
  const usual = scaled(quantile(most ? 0.25 : 0.75));
  const limit = best + 3 * (usual - best);
  if (usual !== best && Number.isFinite(limit) && Math.abs(worst - best) > Math.abs(limit - best)) axis[most ? "min" : "max"] = whole(axis.log ? Math.exp(limit) : limit);
  return widened(axis, axis.min ?? whole(least), axis.max ?? whole(largest));
}

function edgeOf(axis: Axis, most: boolean): number {
  if (axis.min === undefined || axis.max === undefined) return NaN;
  const share = most ? 0.015 : 0.985;
  if (axis.log) return Math.exp((1 - share) * Math.log(axis.min) + share * Math.log(axis.max));
  return (1 - share) * axis.min + share * axis.max;
}

const outside = (axis: Axis, value: number, most: boolean): boolean => (most ? value < axis.min! : value > axis.max!);

/** Returns the axis of colours: from the best value to that which a quarter are worse than, so that the good ones differ. */
function colourAxis(label: string, given: ArrayLike<number>, most: boolean): Axis {
  const sorted = new Float64Array(given.length);
  let count = 0;
  for (let i = 0; i < given.length; ++i) if (Number.isFinite(given[i])) sorted[count++] = given[i]!;
  const finite = sorted.subarray(0, count).sort();
  if (count === 0) return { label };
  const best = most ? finite[count - 1]! : finite[0]!, usual = finite[Math.round((most ? 0.25 : 0.75) * (count - 1))]!;
  return usual === best ? metricAxis(label, given, most) : { label, min: Math.min(best, usual), max: Math.max(best, usual) };
}

interface Made { layer: Layer; x: number[]; y: number[]; trials: number[]; colour: number[] }
function made(role: Layer["role"], name: string, mark: Layer["mark"] = "points"): Made {
  const x: number[] = [], y: number[] = [], trials: number[] = [], colour: number[] = [];
  return { layer: { mark, role, name, x, y, trials }, x, y, trials, colour };
}

const axes = new WeakMap<Float64Array, { version: number; axis: Axis }>();

/** Shows values beyond a bound, too, that are better than all that the axis shows. */
function widenToBest(axis: Axis, numbers: Float64Array, most: boolean): void {
  const finite = numbers.filter((v) => Number.isFinite(v));
  if (finite.length === 0 || axis.min === undefined || axis.max === undefined) return;
  const all = metricAxis("", finite, most);
  if (axis.log && finite.some((v) => v <= 0)) axis.log = false;
  if (most) axis.max = Math.max(axis.max, all.max ?? axis.max);
  else axis.min = Math.min(axis.min, all.min ?? axis.min);
}

/** The axis of the subject's metric, which all of its figures share: for trials within the bounds, if there are any. */
function axisOf(s: Subject): Axis {
  const numbers = values(s), before = axes.get(numbers);
  if (before !== undefined && before.version === s.table.version) return before.axis;
  const { kinds, beyond } = results(s), most = maximize(s);
  const legal = beyond > 0 ? numbers.filter((_, row) => kinds[row] !== BEYOND) : numbers;
  const axis = metricAxis(s.metric, legal.some((v) => Number.isFinite(v)) ? legal : numbers, most);
  if (beyond > 0) {
    widenToBest(axis, numbers, most);
    if (axis.ticks && numbers.some((v) => Number.isFinite(v) && v !== axis.ticks![0]!.at)) delete axis.ticks;
  }
  axes.set(numbers, { version: s.table.version, axis });
  return axis;
}

// The trials that a layer shows, whatever they are shown over.
interface Group { role: Layer["role"]; name: string; trials: Uint32Array; y: Float64Array }
const grouped = new WeakMap<Table, { stamp: string; groups: Group[] }[]>();

// Returns the trials by how they are drawn, the last on top. Figures of one metric share them.
function groupsOf(s: Subject, axis: Axis, colour: boolean): Group[] {
  const stamp = `${s.table.version} ${s.metric}`, kept = grouped.get(s.table) ?? [];
  grouped.set(s.table, kept);
  if (kept[Number(colour)]?.stamp === stamp) return kept[Number(colour)]!.groups;
  const COMPLETED = 0, STOPPED = 1, FAR = 2, INFEASIBLE = 3, BROKEN = 4, WAITING = 5, NOT = 6;
  const named = [[colour ? "shaded" : "trial", "a trial"], ["pruned", "stopped early"], ["outside", "worse than the frame shows"], ["infeasible", "beyond a bound"], ["failed", "failed"], ["open", "paused, with its value so far"]] as const;
  const { value, kinds } = results(s), most = maximize(s), edge = edgeOf(axis, most);
  const into = new Uint8Array(kinds.length).fill(NOT), counts = [0, 0, 0, 0, 0, 0, 0];
  for (let row = 0; row < kinds.length; ++row) {
    const kind = kinds[row]!, far = kind !== FAILED && outside(axis, value[row]!, most);
    if (kind === NONE || (kind === PAUSED && (colour || far)) || !Number.isFinite(kind === FAILED || far ? edge : value[row]!)) continue;
    const group = kind === FAILED ? BROKEN : kind === BEYOND ? INFEASIBLE : kind === PAUSED ? WAITING : far ? FAR : kind === PRUNED ? STOPPED : COMPLETED;
    ++counts[into[row] = group]!;
  }
  const groups = named.map(([role, name], k): Group => ({ role, name, trials: new Uint32Array(counts[k]!), y: new Float64Array(counts[k]!) }));
  const filled = [0, 0, 0, 0, 0, 0];
  for (let row = 0; row < kinds.length; ++row) {
    const group = into[row]!;
    if (group === NOT) continue;
    const i = filled[group]!++, y = value[row]!;
    groups[group]!.trials[i] = row + 1;
    groups[group]!.y[i] = kinds[row] === FAILED || outside(axis, y, most) ? edge : y;
  }
  kept[Number(colour)] = { stamp, groups };
  return groups;
}

function scatter(s: Subject, axis: Axis, x: (row: number) => number, colour: boolean): Layer[] {
  const layers: Layer[] = [];
  for (const { role, name, trials, y } of groupsOf(s, axis, colour)) {
    // Loops, since from, every and filter take ten times as long for each number.
    const at = new Float64Array(trials.length);
    let there = 0;
    for (let i = 0; i < trials.length; ++i) if (Number.isFinite((at[i] = x(trials[i]! - 1)))) ++there;
    const layer: Layer = { mark: "points", role, name, x: at, y, trials };
    if (there < trials.length) { // A parameter that some trials do not have.
      const has = (_: number, i: number) => Number.isFinite(at[i]);
      [layer.x, layer.y, layer.trials] = [at.filter(has), y.filter(has), trials.filter(has)];
    }
    if (role === "shaded") layer.colour = layer.trials!;
    if (layer.x.length > 0) layers.push(layer);
  }
  return layers;
}

/** Marks failed trials at the edge of an axis where no trial has a value. */
function crosses(s: Subject, y: Axis): Layer[] {
  const { kinds } = results(s), out = made("failed", "failed"), edge = edgeOf(y, maximize(s));
  for (let row = 0; row < kinds.length; ++row) {
    if (kinds[row] !== FAILED) continue;
    out.x.push(row + 1);
    out.y.push(edge);
    out.trials.push(row + 1);
  }
  return [out.layer];
}

/** Returns the best values so far, and the trials that had them. */
export function bestLine(s: Subject): { x: number[]; y: number[]; trials: number[] } {
  return bestSoFar(s, "");
}

function bestSoFar(s: Subject, origin: string): Made {
  const out = made("incumbent", "best so far", "steps");
  const { value, kinds } = results(s), most = maximize(s);
  let last = 0;
  for (let row = 0; row < kinds.length; ++row) {
    if (!hasResult(kinds[row])) continue;
    if (origin !== "" && s.table.word("origin", row) !== origin) continue;
    last = row + 1; // The line goes on beside trials that can't be the best one.
    if (kinds[row] !== COMPLETE) continue;
    const before = out.y[out.y.length - 1];
    if (before !== undefined && !(most ? value[row]! > before : value[row]! < before)) continue;
    out.x.push(row + 1);
    out.y.push(value[row]!);
    out.trials.push(row + 1);
  }
  if (out.x.length > 0 && out.x[out.x.length - 1]! < last) {
    out.x.push(last);
    out.y.push(out.y[out.y.length - 1]!);
    out.trials.push(out.trials[out.trials.length - 1]!);
  }
  return out;
}

/** Returns the metrics that are to stay within bounds, as a sentence behind another; "": there is none. */
function boundsText(s: Subject): string {
  const all = metricsOf(s.study).flatMap((m) => [...(m.atLeast === undefined ? [] : [`${m.name} at least ${short(m.atLeast)}`]), ...(m.atMost === undefined ? [] : [`${m.name} at most ${short(m.atMost)}`])]);
  return all.length === 0 ? "" : ` ${all.length === 1 ? "The bound is" : "The bounds are"} ${all.join(", ")}.`;
}

function words(s: Subject): string {
  const { value, best, all, failed, beyond, pruned, paused, better } = results(s);
  return `${all} ${all === 1 ? "trial" : "trials"}${failed ? `, ${failed} failed` : ""}${pruned ? `, ${pruned} stopped early` : ""}${paused ? `, ${paused} paused` : ""}${beyond ? `, ${beyond} beyond a bound` : ""}; ` +
    (best < 0 ? (beyond ? "no trial is feasible, so that none is the best" : "no trial is complete") : `the best value is ${short(value[best]!)} in trial ${best + 1}`) + "." +
    (better ? " Values of trials that were stopped early are from an earlier step, so that none of them is the best." : "") + boundsText(s);
}

const figure = (kind: string, title: string, caption: string, panels: Panel[], columns = 1): Figure => ({ kind, title, caption, columns, panels });

/** The mark of the trial that is recommended beside the best one, if it has a place. */
function recommendedMark(s: Subject, x: (row: number) => number, y: (row: number) => number, halo = false): Layer[] {
  const trial = s.recommended ?? 0, row = trial - 1;
  if (trial === 0 || row >= s.table.rows || !Number.isFinite(x(row)) || !Number.isFinite(y(row))) return [];
  return [{ mark: "points", role: "recommended", name: `recommended, trial ${trial}`, ...(halo ? { halo } : {}), x: [x(row)], y: [y(row)], trials: [trial] }];
}

export function history(s: Subject): Figure {
  let y = axisOf(s);
  // Crosses alone have a place, too, on an axis without numbers.
  const isBare = y.min === undefined && results(s).failed > 0;
  if (isBare) y = { ...y, min: 0, max: 1, ticks: [{ at: -9, text: "" }] };
  const layers = isBare ? crosses(s, y) : scatter(s, y, (row) => row + 1, false);
  const panel: Panel = { x: { label: "trial", whole: true }, y, layers };
  if (layers.length === 0) panel.empty = `no trial has a result yet`;
  // What is told apart by its shape lies over the lines, unless there is so much of it that it would hide them.
  const over = layers.filter((l) => (l.role === "infeasible" || l.role === "failed") && l.x.length <= FEW);
  for (const layer of over) layers.splice(layers.indexOf(layer), 1);
  const explored = bestSoFar(s, "explore");
  if (explored.x.length > 1) layers.push({ ...explored.layer, role: "other", shade: 0.5, name: "best of its own explorations" });
  const target = s.study["spec"].budget?.targetValue;
  if (target !== undefined && s.table.rows > 0) {
    layers.push({ mark: "line", role: "reference", name: "target", x: [0, s.table.rows], y: [target, target] });
  }
  const line = bestSoFar(s, "");
  if (line.x.length > 1) layers.push(line.layer);
  layers.push(...over);
  const best = bestRow(s); // A line of one trial has no length.
  layers.push(...recommendedMark(s, (row) => row + 1, (row) => values(s)[row]!));
  if (best >= 0) layers.push({ mark: "points", role: "best", name: `best, trial ${best + 1}`, x: [best + 1], y: [values(s)[best]!], trials: [best + 1] });
  return figure("history", "History", words(s), [panel]);
}

const MOST_STEPS = 2000; // Of a curve of shares: more would be closer than a picture shows.

interface Shares { stamp: string; count: number; pruned: number; paused: number; running: number; x: number[]; y: number[] }
const shared = new WeakMap<Table, Shares>();

/** Returns the values of the trials within the bounds, the best first, and the share of trials that are at least as good as each:
 * plot::Edf. Of more than MOST_STEPS values so many at even distances, and the first and the last. */
export function shares(s: Subject): Shares {
  const stamp = `${s.table.version} ${s.metric}`, before = shared.get(s.table);
  if (before !== undefined && before.stamp === stamp) return before;
  const value = values(s), meets = bounds(s), numbers = new Float64Array(s.table.rows);
  const early = { PRUNED: 0, PAUSED: 0, RUNNING: 0 } as Record<string, number>;
  let count = 0;
  for (let row = 0; row < s.table.rows; ++row) {
    if (!Number.isFinite(value[row]) || !s.table.exists(row) || !meets(row)) continue;
    numbers[count++] = value[row]!;
    const state = s.table.state(row);
    if (early[state] !== undefined) ++early[state];
  }
  const sorted = numbers.subarray(0, count).sort(), every = Math.max(1, Math.ceil(count / MOST_STEPS));
  if (maximize(s)) sorted.reverse();
  const found: Shares = { stamp, count, pruned: early["PRUNED"]!, paused: early["PAUSED"]!, running: early["RUNNING"]!, x: [], y: [] };
  for (let k = 0; k < count; k = k === count - 1 ? count : Math.min(count - 1, k + every)) {
    found.x.push(sorted[k]!);
    found.y.push((k + 1) / count);
  }
  shared.set(s.table, found);
  return found;
}

/** Returns how many of the values are of trials that did not go on to their end, in words behind a number of trials; "": none. */
function earlyWords(c: Shares): string {
  const counts = ([[c.pruned, "stopped early"], [c.paused, "paused"], [c.running, "running"]] as const).filter(([n]) => n > 0).map(([n, words]) => `${n} ${words}`);
  return counts.length === 0 ? "" : ` (${counts.join(", ")})`;
}

/** Returns the end of a sentence about curves of values: which of them is better. Studies that are compared may have other goals. */
export function betterWords(subjects: Subject[], along: "x" | "y"): string {
  const ways = (most: boolean) => (along === "x" ? `further to the ${most ? "right" : "left"}` : most ? "higher up" : "further down");
  const goals = new Set(subjects.map(maximize)), metrics = new Set(subjects.map((s) => s.metric));
  if (goals.size > 1) return " No curve is better by its place: some of these metrics are minimized, others maximized.";
  return metrics.size > 1 ? " Their metrics differ, so that no curve is better by its place." : ` A curve ${ways(goals.has(true))} is better.`;
}

/** Returns a sentence of how many values an axis leaves out, by the name of their curve; "": none. */
export function cutWords(axis: Axis, curves: { name: string; values: ArrayLike<number> }[], what: string): string {
  const { min = -Infinity, max = Infinity } = axis, lost: string[] = [];
  for (const { name, values: all } of curves) {
    let count = 0;
    for (let i = 0; i < all.length; ++i) if (Number.isFinite(all[i]) && (all[i]! < min || all[i]! > max)) ++count;
    if (count > 0) lost.push(`${count} of ${all.length} ${what}${name === "" ? "" : ` of ${name}`}`);
  }
  const ends = [...(axis.min === undefined ? [] : [`from ${short(min)}`]), ...(axis.max === undefined ? [] : [`to ${short(max)}`])].join(" ");
  return lost.length === 0 ? "" : ` The frame shows values ${ends}: ${lost.join(", ")} lie outside.`;
}

/** Returns an axis for values of studies that are compared: of different goals all of them are within. */
export function sharedAxis(subjects: Subject[], curves: number[][]): Axis {
  const most = maximize(subjects[0]!), metrics = [...new Set(subjects.map((s) => s.metric))], all = curves.flat();
  const label = metrics.length > 3 ? "value" : metrics.join(", ");
  if (subjects.every((s) => maximize(s) === most)) return metricAxis(label, all, most);
  const finite = all.filter((v) => Number.isFinite(v));
  const low = finite.reduce((a, b) => Math.min(a, b), Infinity), high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
  return low > high ? { label } : widened({ label }, low, high);
}

/** Shares of trials that are at least as good as each value, of one study, whose name is "", or of several that are compared. */
export function edf(all: { s: Subject; name: string }[]): Figure {
  const first = all[0]!.s, curves = all.map(({ s }) => shares(s)), axis = sharedAxis(all.map(({ s }) => s), curves.map((c) => c.x));
  const layers = curves.flatMap((c, i): Layer[] => {
    if (c.count === 0) return [];
    // From no trial at the best value, to all of them at the worse end of the frame.
    const most = maximize(all[i]!.s), end = most ? axis.min : axis.max, last = c.x[c.x.length - 1]!, goesOn = end !== undefined && (most ? end < last : end > last);
    return [{ mark: "steps", ...(all.length > 1 || all[i]!.name !== "" ? { role: "shaded", series: i } as const : { role: "incumbent" } as const), name: all[i]!.name, x: [c.x[0]!, ...c.x, ...(goesOn ? [end] : [])], y: [0, ...c.y, ...(goesOn ? [1] : [])] }];
  });
  const have = (c: Shares, share: number) => short(c.x[c.y.findIndex((y) => y >= share - 1e-12)]!);
  const cap = (word: string) => (all.length === 1 && all[0]!.name === "" ? word.charAt(0).toUpperCase() + word.slice(1) : word);
  const told = curves.map((c, i) => {
    const name = all[i]!.name === "" ? "" : `${all[i]!.name}: `;
    return c.count === 0 ? `${name}${cap("no")} trial has a value` : c.count === 1 ? `${name}${cap("the")} only value is ${short(c.x[0]!)}${earlyWords(c)}` : `${name}${cap("a")} tenth of ${c.count} trials${earlyWords(c)} is at ${have(c, 0.1)} or better, half at ${have(c, 0.5)}`;
  }).join("; ");
  const panel: Panel = { x: axis, y: { label: "share of trials that are as good", min: 0, max: 1.02 }, layers, ...(layers.length === 0 ? { empty: `no trial has a value of ${first.metric} yet` } : {}) };
  return figure("edf", "How good the trials are", `${told}.${betterWords(all.map(({ s }) => s), "x")}${curves.some((c) => c.pruned + c.paused + c.running > 0) ? " Values of trials that did not go on to their end are from an earlier step." : ""}${cutWords(axis, curves.map((c, i) => ({ name: all[i]!.name, values: c.x })), "points")}${all.some(({ s }) => s.table.has("feasible")) ? " Trials beyond a bound are not in it." : ""}`, [panel]);
}

/** Trials by two objectives, and those of which no other is as good in both. */
export function front(s: Subject, a: string, b: string): Figure {
  const x = s.table.number(`metrics.${a}`), y = s.table.number(`metrics.${b}`);
  const trials = made("trial", "a trial"), beyond = made("infeasible", "beyond a bound"), best = made("best", "on the front of these two"), line = made("incumbent", "the front: nothing is better in both", "steps");
  const rows: number[] = [], meets = bounds(s);
  for (let row = 0; row < s.table.rows; ++row) {
    if (s.table.state(row) !== "COMPLETE" || !Number.isFinite(x[row]) || !Number.isFinite(y[row])) continue;
    const into = meets(row) ? trials : beyond;
    into.x.push(x[row]!);
    into.y.push(y[row]!);
    into.trials.push(row + 1);
    if (into === trials) rows.push(row);
  }
  const sx = maximizes(s, a) ? -1 : 1, sy = maximizes(s, b) ? -1 : 1;
  rows.sort((p, q) => sx * (x[p]! - x[q]!) || sy * (y[p]! - y[q]!) || p - q);
  let least = Infinity;
  for (const row of rows) {
    if (sy * y[row]! >= least) continue;
    least = sy * y[row]!;
    for (const into of [best, line]) {
      into.x.push(x[row]!);
      into.y.push(y[row]!);
      into.trials.push(row + 1);
    }
  }
  const legal = rows.length > 0, all = legal ? trials : beyond;
  const axis = (name: string, own: number[], others: number[], most: boolean): Axis => {
    // Of many beyond a bound the frame shows those that are better alone.
    if (!legal || others.length <= own.length) return metricAxis(name, legal ? own.concat(others) : own, most);
    const made = metricAxis(name, own, most);
    widenToBest(made, Float64Array.from(others), most);
    return made;
  };
  const panel: Panel = { x: axis(a, all.x, beyond.x, sx < 0), y: axis(b, all.y, beyond.y, sy < 0), layers: [] };
  // What is worse than the frame is drawn at its edge.
  const far = made("outside", "worse than the frame shows"), ex = edgeOf(panel.x, sx < 0), ey = edgeOf(panel.y, sy < 0);
  const inside = made("trial", "a trial");
  let moved = 0;
  for (const from of [trials, beyond]) {
    for (let i = 0; i < from.x.length; ++i) {
      const wide = outside(panel.x, from.x[i]!, sx < 0), high = outside(panel.y, from.y[i]!, sy < 0), into = from === trials ? (wide || high ? far : inside) : null;
      if (into === null) {
        if (wide) from.x[i] = ex;
        if (high) from.y[i] = ey;
        if (wide || high) ++moved;
        continue;
      }
      into.x.push(wide ? ex : from.x[i]!);
      into.y.push(high ? ey : from.y[i]!);
      into.trials.push(from.trials[i]!);
    }
  }
  for (const m of [inside, far, line, beyond, best]) if (m.x.length > 0) panel.layers.push(m.layer);
  if (panel.layers.length === 0) panel.empty = "no trial has both values yet";
  for (const [name, along] of [[a, "x"], [b, "y"]] as const) {
    const own = panel[along], other = panel[along === "x" ? "y" : "x"], spec = metricsOf(s.study).find((m) => m.name === name);
    for (const [bound, words] of [[spec?.atLeast, "at least"], [spec?.atMost, "at most"]] as const) {
      if (bound === undefined || own.min === undefined || other.min === undefined || !(bound >= own.min && bound <= own.max!)) continue;
      const ends = [other.min, other.max!], at = [bound, bound];
      panel.layers.push({ mark: "line", role: "reference", name: `the bound: ${name} ${words} ${short(bound)}`, x: along === "x" ? at : ends, y: along === "x" ? ends : at });
    }
  }
  const corner = `${sy < 0 ? "upper" : "lower"} ${sx < 0 ? "right" : "left"}`;
  return figure("front", `${b} against ${a}`, `${best.x.length} ${best.x.length === 1 ? "trial is" : "trials are"} on the front of ${a} and ${b}: no other is at least as good in both. The best corner is the ${corner} one.` +
    (beyond.x.length > 0 ? ` ${beyond.x.length} ${beyond.x.length === 1 ? "trial is" : "trials are"} beyond a bound${moved > 0 ? `, of which ${moved} ${moved === 1 ? "is" : "are"} drawn at the edge of the frame, beyond which ${moved === 1 ? "it lies" : "they lie"}` : ""}.` : "") + boundsText(s), [panel]);
}

/** A parameter as a coordinate: plot::ParameterAxis. */
export interface Coordinate {
  name: string;
  axis: Axis;
  at: (row: number) => number;
  share: (coordinate: number) => number;
  value: (coordinate: number) => number | string | boolean;
  levels: number; // 0: too many to tell apart.
  ask: boolean; // Whether a model can be asked along it.
}

const logit = (v: number): number => Math.log(v / (1 - v));

export function coordinates(s: Subject, most: number): Coordinate[] {
  const space = (s.study["spec"].space ?? []) as Json[];
  const parents = new Set(space.map((p) => p["condition"]?.parent));
  const out: Coordinate[] = [];
  for (const p of space) {
    if (out.length === most) break;
    const suffix = p["count"] === undefined ? "" : ".median";
    const name = String(p["name"]), column = `params.${name}${suffix}`;
    const range = (p["float"] ?? p["int"]) as Json | undefined;
    const ask = suffix === "" && !parents.has(name);
    const label = String(p["displayName"] || name) + suffix;
    if (range !== undefined) {
      const low = Number(range["min"]), high = Number(range["max"]);
      if (low === high) continue;
      const isLogit = range["scale"] === "LOGIT", log = range["scale"] === "LOG";
      const step = Number(range["step"] ?? (p["int"] ? 1 : 0)) || (p["int"] ? 1 : 0);
      const axis: Axis = { label, log, min: isLogit ? logit(low) : low, max: isLogit ? logit(high) : high };
      if (isLogit) {
        axis.ticks = [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999].filter((v) => v >= low && v <= high).map((v) => ({ at: logit(v), text: String(v) }));
      }
      const numbers = s.table.number(column);
      const count = step > 0 ? Math.floor((high - low) / step) + 1 : 0;
      out.push({
        name, axis, ask,
        levels: count > 0 && count <= 24 ? count : 0,
        at: (row) => (isLogit ? logit(numbers[row]!) : numbers[row]!),
        share: (c) => place(axis, c),
        value: (c) => (isLogit ? 1 / (1 + Math.exp(-c)) : step > 0 ? low + step * Math.round((c - low) / step) : Math.min(high, Math.max(low, c))),
      });
    } else {
      const labels = p["bool"] ? ["false", "true"] : ((p["ordinal"] ?? p["categorical"])["values"] as string[]);
      if (labels.length < 2) continue;
      const places = new Map(labels.map((text, i) => [text, i]));
      const every = Math.ceil(labels.length / 24), texts = distinct(labels, 17);
      out.push({
        name, ask,
        axis: { label, min: -0.5, max: labels.length - 0.5, ticks: texts.flatMap((text, i) => (i % every === 0 ? [{ at: i, text }] : [])) },
        levels: labels.length,
        at: (row) => places.get(s.table.word(column, row)) ?? NaN,
        share: (c) => (c + 0.5) / labels.length,
        value: (c) => (p["bool"] ? Math.round(c) === 1 : labels[Math.min(labels.length - 1, Math.max(0, Math.round(c)))]!),
      });
    }
  }
  return out;
}

/** Returns coordinates along an axis at which a model is asked. */
export function places(c: Coordinate, most: number): number[] {
  const count = Math.min(c.levels || most, most);
  const isLabels = c.axis.ticks !== undefined && c.levels > 0;
  return Array.from({ length: count }, (_, i) => {
    if (isLabels) return i;
    const share = count === 1 ? 0.5 : i / (count - 1);
    return c.axis.log ? c.axis.min! * Math.pow(c.axis.max! / c.axis.min!, share) : c.axis.min! + share * (c.axis.max! - c.axis.min!);
  });
}

/** The gradients of trials, by name of the parameter. */
export interface Slope { trial: number; value: number; parameters: Json; gradient: Map<string, number> }

export function slice(s: Subject, c: Coordinate, model: { x: number[]; predictions: Json[] } | null, slopes: Slope[]): Figure {
  const y = axisOf(s);
  const layers = scatter(s, y, c.at, true);
  const panel: Panel = { title: "", x: c.axis, y, colour: { label: "trial" }, layers };
  if (layers.length === 0) panel.empty = "no trial has a value here yet";
  if (model !== null) {
    const mean = model.predictions.map((p) => Number(p["mean"] ?? 0)), sd = model.predictions.map((p) => Number(p["sd"] ?? 0));
    layers.unshift({ mark: "band", role: "model", name: "two deviations of the model", x: model.x, y: mean.map((m, i) => m - 2 * sd[i]!), y2: mean.map((m, i) => m + 2 * sd[i]!) },
                   { mark: "line", role: "model", name: "mean of the model", x: model.x, y: mean });
  }
  const past = slopes.filter((slope) => s.table.exists(slope.trial - 1)); // Of the time that is looked back to.
  if (past.length > 0 && y.min !== undefined) layers.push(...slopeLines(c, y, past));
  layers.push(...recommendedMark(s, c.at, (row) => values(s)[row]!));
  const best = bestRow(s);
  if (best >= 0 && Number.isFinite(c.at(best))) {
    layers.push({ mark: "points", role: "best", name: `best, trial ${best + 1}`, x: [c.at(best)], y: [values(s)[best]!], trials: [best + 1] });
  }
  return figure("slice", `${s.metric} over ${c.axis.label}`, "Newer trials have the stronger colour." + (model ? " The line is what the model expects of the best setting when this parameter alone changes." : ""), [panel]);
}

function slopeLines(c: Coordinate, y: Axis, slopes: Slope[]): Layer[] {
  const x: number[] = [], y1: number[] = [], x2: number[] = [], y2: number[] = [], trials: number[] = [];
  const height = y.log ? Math.log(y.max! / y.min!) : y.max! - y.min!;
  const at = (place: number) => (y.log ? y.min! * Math.pow(y.max! / y.min!, place) : y.min! + place * height);
  for (const slope of slopes) {
    const derivative = slope.gradient.get(c.name), value = Number(slope.parameters[c.name]);
    if (derivative === undefined || !Number.isFinite(value)) continue;
    const middle = c.axis.ticks ? logit(value) : value;
    const place = y.log ? Math.log(slope.value / y.min!) / height : (slope.value - y.min!) / height;
    const perUnit = c.axis.log ? 1 / (value * Math.log(c.axis.max! / c.axis.min!)) : c.axis.ticks ? 1 / (value * (1 - value) * (c.axis.max! - c.axis.min!)) : 1 / (c.axis.max! - c.axis.min!);
    const rise = (derivative * (y.log ? 1 / (slope.value * height) : 1 / height)) / perUnit;
    if (!Number.isFinite(rise) || !(place >= 0 && place <= 1)) continue;
    const dx = 0.045 / Math.hypot(1, rise * 0.6), share = c.share(middle);
    const coordinate = (part: number) => (c.axis.log ? c.axis.min! * Math.pow(c.axis.max! / c.axis.min!, part) : c.axis.min! + part * (c.axis.max! - c.axis.min!));
    x.push(coordinate(share - dx));
    x2.push(coordinate(share + dx));
    y1.push(at(place - rise * dx));
    y2.push(at(place + rise * dx));
    trials.push(slope.trial);
  }
  return x.length === 0 ? [] : [{ mark: "segments", role: "gradient", name: "reported slope", x, y: y1, x2, y2, trials }];
}

/** The metric over two parameters: what the model expects, if there is one, and the trials. `why`: what a sentence says of why the
 * model is not drawn, "since …"; "": it is asked. */
export function contour(s: Subject, a: Coordinate, b: Coordinate, model: { x: number[]; y: number[]; means: number[] } | null, why: string): Figure {
  const { value, kinds } = results(s);
  const room = () => new Float64Array(kinds.length), x = room(), y = room(), colour = room(), trials = new Uint32Array(kinds.length);
  const stopped = made("pruned", "stopped early"), beyond = made("infeasible", "beyond a bound");
  stopped.layer.halo = beyond.layer.halo = model !== null;
  let count = 0;
  for (let row = 0; row < kinds.length; ++row) {
    if (!hasResult(kinds[row]) || !Number.isFinite((x[count] = a.at(row))) || !Number.isFinite((y[count] = b.at(row)))) continue;
    if (kinds[row] !== COMPLETE) { // Values of another step, or that do not count, are no colours beside the others.
      const into = kinds[row] === PRUNED ? stopped : beyond;
      into.x.push(x[count]!);
      into.y.push(y[count]!);
      into.trials.push(row + 1);
      continue;
    }
    colour[count] = value[row]!;
    trials[count++] = row + 1;
  }
  const points: Layer = { mark: "points", role: "trial", name: "a trial", halo: model !== null, x: x.subarray(0, count), y: y.subarray(0, count), trials: trials.subarray(0, count) };
  const panel: Panel = { x: a.axis, y: b.axis, dark_low: !maximize(s), layers: [] };
  if (model !== null) {
    const edges = (at: number[], axis: Axis): number[] => {
      const middle = (p: number, q: number) => (axis.log ? Math.sqrt(p * q) : (p + q) / 2);
      return [axis.min!, ...at.slice(1).map((q, i) => middle(at[i]!, q)), axis.max!];
    };
    const left = edges(model.x, a.axis), low = edges(model.y, b.axis);
    const cells = model.means.map((_, i) => [i % model.x.length, Math.floor(i / model.x.length)] as const);
    panel.colour = colourAxis(s.metric, model.means, maximize(s));
    panel.layers.push({ mark: "boxes", role: "model", name: "", colour: model.means, x: cells.map(([i]) => left[i]!), x2: cells.map(([i]) => left[i + 1]!), y: cells.map(([, k]) => low[k]!), y2: cells.map(([, k]) => low[k + 1]!) });
  } else {
    points.colour = colour.subarray(0, count);
    panel.colour = colourAxis(s.metric, colour.subarray(0, count), maximize(s));
  }
  const others = [stopped, beyond].filter((m) => m.x.length > 0).map((m) => m.layer);
  if (count > 0) panel.layers.push(points);
  panel.layers.push(...others);
  if (count + others.length === 0) panel.empty = "no trial has a value here yet";
  panel.layers.push(...recommendedMark(s, a.at, b.at, true));
  const best = bestRow(s);
  if (best >= 0 && Number.isFinite(a.at(best)) && Number.isFinite(b.at(best))) {
    panel.layers.push({ mark: "points", role: "best", halo: true, name: `best, trial ${best + 1}`, x: [a.at(best)], y: [b.at(best)], trials: [best + 1] });
  }
  return figure("contour", `${s.metric} over ${a.axis.label} and ${b.axis.label}`, count + others.length === 0 ? "Nothing is to be seen yet." : `The stronger the colour, the better; the worst quarter is alike. ` + (model ? "Colours are what the model expects when only these two change in the best setting." : `Colours are those of the complete trials${why === "" ? " until the model has answered" : `, ${why}`}.`), [panel]);
}

/** Returns the whole of a number that parameters' ranges have, as 1024 and 0.015625; of another one five digits. */
const endText = (value: number): string => (String(value).length <= 8 ? String(value) : short(value));

/** Returns an axis of the metric that ends at the best value, and not beyond it; at the worst one, too, if it is shown. */
function trueAxis(axis: Axis, numbers: number[]): Axis {
  if (axis.min === undefined || axis.max === undefined || numbers.length === 0) return axis;
  const low = numbers.reduce((a, b) => Math.min(a, b)), high = numbers.reduce((a, b) => Math.max(a, b));
  const min = Math.max(axis.min, low), max = Math.min(axis.max, high);
  return min < max ? { ...axis, min, max } : axis;
}

export function parallel(s: Subject, axes: Coordinate[]): Figure {
  const { value, kinds } = results(s);
  const rows: number[] = [];
  for (let row = 0; row < kinds.length; ++row) if (hasResult(kinds[row])) rows.push(row);
  const metric = trueAxis(axisOf(s), rows.map((row) => value[row]!)), all = rows.length, sign = maximize(s) ? -1 : 1;
  // The best come first, then those that were stopped early, and those beyond a bound last.
  const late = (row: number) => (kinds[row] === BEYOND ? 2 : kinds[row] === PRUNED ? 1 : 0);
  const order = (p: number, q: number) => late(p) - late(q) || sign * (value[p]! - value[q]!) || p - q;
  let kept = rows;
  if (all > BEST_LINES + OTHER_LINES) {
    // Numbers alone are sorted fast; a hundred thousand rows are not.
    const first = rows.filter((row) => late(row) === 0), most = Math.min(BEST_LINES, first.length);
    const limit = most === 0 ? -Infinity : new Float64Array(first.map((row) => sign * value[row]!)).sort()[most - 1]!;
    const isBest = (row: number) => late(row) === 0 && sign * value[row]! <= limit;
    const best = first.filter(isBest).sort(order).slice(0, most);
    const others = rows.filter((row) => !isBest(row));
    kept = [...best, ...Array.from({ length: Math.min(OTHER_LINES, others.length) }, (_, i) => others[Math.floor((i * others.length) / Math.min(OTHER_LINES, others.length))]!)];
  }
  kept.sort(order);
  const layers: Made[] = Array.from({ length: SHADES }, (_, i) => {
    const layer = made("shaded", "", "line");
    layer.layer.shade = i / (SHADES - 1);
    return layer;
  });
  const complete = kept.filter((row) => late(row) === 0).length, beyond = made("infeasible", "beyond a bound", "line"), stopped = made("pruned", "stopped early", "line");
  let skips = false;
  kept.forEach((row, i) => {
    const layer = i < complete ? layers[SHADES - 1 - Math.floor((i * SHADES) / complete)]! : kinds[row] === PRUNED ? stopped : beyond;
    axes.forEach((axis, k) => {
      const share = axis.share(axis.at(row));
      if (!Number.isFinite(share)) { // The trial does not have the parameter.
        skips = true;
        return;
      }
      layer.x.push(k);
      layer.y.push(share);
      layer.trials.push(row + 1);
    });
    layer.x.push(axes.length, NaN);
    layer.y.push(Math.min(1, Math.max(0, place(metric, value[row]!))), NaN);
    layer.trials.push(row + 1, row + 1);
  });
  const panel: Panel = {
    x: { label: "", min: -0.2, max: axes.length + 0.5, ticks: [...axes.map((a, k) => ({ at: k, text: a.axis.label })), { at: axes.length, text: s.metric }] },
    y: { label: "", min: -0.08, max: 1.08, ticks: [{ at: -9, text: "" }] },
    layers: [beyond, stopped, ...layers].filter((l) => l.x.length > 0).map((l) => l.layer),
    notes: [],
  };
  if (kept.length === 0) panel.empty = "no trial has a value yet";
  // A parameter's ends are those of its range; so are the metric's, to five digits.
  const ends = [...axes.map((a) => a.axis), metric].map(({ min, max }, k) => [min, max].map((end) => (end === undefined ? "" : k < axes.length ? endText(end) : short(end))));
  [...axes.map((a) => a.axis), metric].forEach((axis, k) => {
    panel.layers.push({ mark: "segments", role: "reference", name: "", x: [k], y: [0], x2: [k], y2: [1] });
    if (axis.ticks) for (const tick of axis.ticks) panel.notes!.push({ x: k, y: (tick.at - axis.min!) / (axis.max! - axis.min!), text: tick.text, above: true });
    else if (axis.min !== undefined) panel.notes!.push({ x: k, y: 0, text: ends[k]![0]!, above: false }, { x: k, y: 1, text: ends[k]![1]!, above: true });
  });
  const space = (s.study["spec"].space ?? []).length;
  return figure("parallel", "Settings and values", (kept.length === 0 ? "No trial has a value yet." : kept.length === 1 ? "The line is the only trial with a value." : `A line for each of ${kept.length}${kept.length < all ? ` of ${all}` : ""} trials, the stronger the better.`) + (stopped.x.length > 0 ? " Those of trials that were stopped early have values of an earlier step, and another dash." : "") + (beyond.x.length > 0 ? " Those of trials beyond a bound are dashed." : "") + (skips ? " A line passes by the axes of parameters that its trial does not have." : "") + (axes.length < space ? ` ${axes.length} of ${space} parameters are shown.` : ""), [panel]);
}

export function importance(answer: Json): Figure {
  const all = (answer["parameters"] ?? []) as Json[], shares = all.slice(0, 15);
  const y = shares.map((_, i) => shares.length - 1 - i);
  const number = (share: Json, field: string) => Number(share[field] ?? 0);
  const longest = Math.max(0, ...shares.map((s) => Math.max(number(s, "share"), number(s, "high"))));
  const panel: Panel = {
    x: { label: "share of the variance", min: 0, max: Math.min(1, Math.max(0.1, 1.1 * longest)) },
    y: { label: "", min: -0.6, max: shares.length - 0.4, ticks: shares.map((s, i) => ({ at: y[i]!, text: String(s["parameters"]) })) },
    layers: [
      { mark: "boxes", role: "trial", name: "share", x: shares.map(() => 0), x2: shares.map((s) => number(s, "share")), y: y.map((v) => v - 0.3), y2: y.map((v) => v + 0.3) },
      { mark: "whiskers", role: "reference", name: "interval: 5 % to 95 %", x: shares.map((s) => number(s, "low")), x2: shares.map((s) => number(s, "high")), y },
    ],
  };
  const predicted = Math.max(0, Number(answer["predicted"] ?? 0));
  const others = shares.length < all.length ? ` ${shares.length} of ${all.length} parameters are shown.` : "";
  return figure("importance", "Importance", `From ${answer["trials"] ?? 0} complete trials. A model of the shares predicts ${(100 * predicted).toFixed(0)} % of the variance of trials that it has not seen${predicted < 0.2 ? ": too little for the shares to mean much" : ""}.${others}`, [panel]);
}

/** Returns the points of a trial's learning curve, which ends at its result. */
export function curveOf(trial: Json, metric: string): { x: number[]; y: number[] } {
  const x: number[] = [], y: number[] = [];
  const points = (trial["measurements"] ?? []) as Json[], last = trial["finalMeasurement"] as Json | undefined;
  for (const point of last !== undefined && points.length > 0 ? [...points, last] : points) {
    const step = Number(point["step"] ?? 0);
    if (point["metrics"]?.[metric] === undefined || (point === last && !(step > (x[x.length - 1] ?? -1)))) continue;
    x.push(step);
    y.push(Number(point["metrics"][metric]));
  }
  return { x, y };
}

/** Returns the steps up to which trials were trained at first, or when they went on; none: the algorithm stops no trial so. */
function rungsOf(trials: Json[]): number[] {
  const steps = new Set<number>();
  for (const trial of trials) for (const from of [trial["provenance"], ...((trial["promotions"] ?? []) as Json[])]) if (Number(from?.resource ?? 0) > 0) steps.add(Number(from.resource));
  const sorted = [...steps].sort((a, b) => a - b);
  return sorted.length < 2 ? [] : sorted.slice(0, 12);
}

/** Returns the median of curves at each step up to which half of them last, and three at least: plot::MedianCurve. */
export function medianCurve(lines: { x: number[]; y: number[] }[]): { x: number[]; y: number[] } {
  const out = { x: [] as number[], y: [] as number[] }, steps = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const at = lines.map(() => 0); // The first point of each line that is not before the step.
  for (const step of steps) {
    const values: number[] = [];
    let left = 0;
    for (let i = 0; i < lines.length; ++i) {
      const { x, y } = lines[i]!;
      if (!(x[x.length - 1]! >= step)) continue;
      ++left;
      while (x[at[i]!]! < step) ++at[i]!;
      const k = at[i]!, before = k === 0 ? 1 : (step - x[k - 1]!) / (x[k]! - x[k - 1]!);
      if (k === 0 && x[0]! > step) continue; // It begins later.
      const value = k === 0 || before === 1 ? y[k]! : y[k - 1]! + before * (y[k]! - y[k - 1]!);
      if (Number.isFinite(value)) values.push(value);
    }
    if (left < 3 || 2 * left < lines.length) break;
    if (values.length < 3 || 2 * values.length < left) continue;
    values.sort((a, b) => a - b);
    out.x.push(step);
    out.y.push(values[values.length >> 1]!);
  }
  return out;
}

/** Returns trials from the best to the worst: those without a result by the last number that they reported. */
function ranked(s: Subject, trials: Json[]): Json[] {
  const value = values(s), sign = maximize(s) ? -1 : 1;
  const rank = new Map(trials.map((trial) => {
    const own = value[Number(trial["number"]) - 1] ?? NaN, last = Number.isFinite(own) ? own : curveOf(trial, s.metric).y.filter((v) => Number.isFinite(v)).at(-1);
    return [trial, last === undefined ? Infinity : sign * last];
  }));
  const compare = (a: number, b: number) => (a < b ? -1 : a > b ? 1 : 0);
  return [...trials].sort((a, b) => compare(rank.get(a)!, rank.get(b)!) || Number(a["number"]) - Number(b["number"]));
}

export function curves(s: Subject, given: Json[]): Figure {
  const trials = ranked(s, given);
  const lines: Layer[] = [], drawn: { x: number[]; y: number[] }[] = [];
  const ends = made("pruned", "stopped early"), best = bestRow(s) + 1;
  const all: number[] = [];
  let first: Layer | null = null;
  trials.forEach((trial, i) => {
    const { x, y } = curveOf(trial, s.metric), number = Number(trial["number"]);
    if (x.length === 0) return;
    drawn.push({ x, y });
    for (const value of y) if (Number.isFinite(value)) all.push(value);
    const line: Layer = { mark: "line", role: "shaded", name: "", x, y, trials: x.map(() => number), shade: trials.length < 2 ? 1 : 1 - i / (trials.length - 1) };
    if (trial["state"] === "PRUNED") {
      ends.x.push(x[x.length - 1]!);
      ends.y.push(y[y.length - 1]!);
      ends.trials.push(number);
    }
    if (number === best) first = { mark: "line", role: "best", name: `best, trial ${best}`, x, y, trials: line.trials! };
    else lines.unshift(line);
  });
  const count = drawn.length, axis = metricAxis(s.metric, all, maximize(s)), rungs = count > 0 ? rungsOf(trials) : [], median = medianCurve(drawn);
  if (axis.min !== undefined && rungs.length > 0) {
    lines.unshift({ mark: "segments", role: "reference", name: "rung: where trials are compared", x: rungs, x2: rungs, y: rungs.map(() => axis.min!), y2: rungs.map(() => axis.max!) });
  }
  if (ends.x.length > 0) lines.push(ends.layer);
  const end = median.x[median.x.length - 1]!, lengths = drawn.map((line) => line.x[line.x.length - 1]!);
  const lasts = median.x.length > 1 && lengths.some((x) => x !== end);
  if (median.x.length > 1) lines.push({ mark: "line", role: "other", name: lasts ? "median of the curves that go on" : "median", ...median });
  if (first !== null) lines.push(first);
  // Rungs are powers, so that their distances are equal on a logarithmic axis; a curve may begin at step 0, though.
  const log = rungs.length > 2 && drawn.every((line) => line.x[0]! > 0), steps = s.study["spec"].resource?.unit || "step";
  const panel: Panel = { x: { label: steps, whole: !log, log }, y: axis, layers: lines };
  if (log && axis.max !== undefined) panel.notes = rungs.map((rung) => ({ x: rung, y: axis.max!, text: short(rung), above: false }));
  if (count === 0) panel.empty = "no trial has reported a learning curve";
  return figure("curves", "Learning curves", `${count} ${count === 1 ? "curve" : "curves"}${count < results(s).all ? " of the best trials and of some others" : ""}, the stronger the better.` +
    (lengths.some((x) => x > end) ? ` The median ends where fewer than half of the trials that began are left, or fewer than three.` : ""), [panel]);
}

const MOST_LANES = 8, MOST_STACKED = 20000; // Boxes of one row beside each other, and boxes that are looked at.

/** Puts boxes of a row that overlap below each other, so that none hides another one. `layers`: boxes whose middle, in y, is their row. `close`: what may
 * overlap, about a pixel. */
function stack(layers: { x: number[]; x2: number[]; y: number[]; y2: number[] }[], close: number): void {
  if (layers.reduce((sum, l) => sum + l.x.length, 0) > MOST_STACKED) return;
  const rows = new Map<number, { of: (typeof layers)[number]; i: number }[]>();
  for (const of of layers) {
    of.x.forEach((_, i) => {
      const row = Math.round((of.y[i]! + of.y2[i]!) / 2);
      if (!rows.has(row)) rows.set(row, []);
      rows.get(row)!.push({ of, i });
    });
  }
  for (const [row, boxes] of rows) {
    boxes.sort((a, b) => a.of.x[a.i]! - b.of.x[b.i]!);
    const ends: number[] = [], lanes = boxes.map(({ of, i }) => {
      let lane = ends.findIndex((end) => end <= of.x[i]! + close);
      if (lane < 0) lane = ends.length < MOST_LANES ? ends.length : ends.indexOf(Math.min(...ends));
      ends[lane] = Math.max(ends[lane] ?? -Infinity, of.x2[i]!);
      return lane;
    });
    if (ends.length < 2) continue;
    boxes.forEach(({ of, i }, k) => {
      of.y[i] = row - 0.38 + (0.76 * lanes[k]!) / ends.length;
      of.y2[i] = row - 0.38 + (0.76 * (lanes[k]! + 0.9)) / ends.length;
    });
  }
}

/** When trials ran, in a row for each worker. `now`: the time in seconds since 1970, up to which trials run that have not ended. */
export function timeline(s: Subject, several: Json[] = [], now = Date.now() / 1000): Figure {
  const start = s.table.number("start_time"), end = s.table.number("end_time"), took = s.table.number("seconds"), attempts = s.table.number("attempts");
  const known = new Map(several.map((trial) => [Number(trial["number"]), (trial["attempts"] ?? []) as Json[]]));
  let first = Infinity, last = -Infinity;
  for (let row = 0; row < s.table.rows; ++row) {
    if (!Number.isFinite(start[row]) || s.table.state(row) === "") continue;
    first = Math.min(first, start[row]!);
    last = Math.max(last, start[row]!, s.table.state(row) === "RUNNING" ? now : Number.isFinite(end[row]) ? end[row]! : start[row]! + (Number.isFinite(took[row]) ? took[row]! : 0));
  }
  const span = last - first;
  const [unit, seconds] = span > 172800 ? ["days", 86400] as const : span > 7200 ? ["hours", 3600] as const : span > 120 ? ["minutes", 60] as const : ["seconds", 1] as const;
  const names = new Map<string, Made & { x2: number[]; y2: number[]; open: Map<string, number> }>();
  const rows = new Map<string, number>();
  let unknown = 0;
  const states: Record<string, [Layer["role"], string]> = { COMPLETE: ["trial", "complete"], PRUNED: ["pruned", "stopped early"], FAILED: ["failed", "failed"], RUNNING: ["open", "runs"], PAUSED: ["other", "ran until a pause"], CANCELLED: ["recommended", "cancelled"] };
  const add = (state: [Layer["role"], string], worker: string, from: number, to: number, trial: number) => {
    if (!rows.has(worker)) rows.set(worker, Math.min(rows.size, 40));
    let layer = names.get(state[1]);
    if (layer === undefined) {
      layer = { ...made(state[0], state[1], "boxes"), x2: [], y2: [], open: new Map() };
      layer.layer.x2 = layer.x2;
      layer.layer.y2 = layer.y2;
      names.set(state[1], layer);
    }
    const x = (from - first) / seconds, x2 = (Math.max(to, from) - first) / seconds;
    // Runs of a worker that follow each other within a pixel or so become one box.
    const before = layer.open.get(worker), close = span / seconds / 1500;
    if (before !== undefined && x >= layer.x[before]! && x <= layer.x2[before]! + close && x2 - layer.x[before]! < 4 * close) {
      layer.x2[before] = Math.max(layer.x2[before]!, x2);
      return;
    }
    layer.open.set(worker, layer.x.length);
    layer.x.push(x);
    layer.x2.push(x2);
    layer.y.push(rows.get(worker)! - 0.38);
    layer.y2.push(rows.get(worker)! + 0.38);
    layer.trials.push(trial);
  };
  const seconds1970 = (text: unknown) => new Date(String(text)).getTime() / 1000;
  for (let row = 0; row < s.table.rows; ++row) {
    const state = states[s.table.state(row)];
    if (state === undefined || !Number.isFinite(start[row])) continue;
    const own = known.get(row + 1);
    if (own !== undefined) {
      own.forEach((attempt, i) => {
        const from = seconds1970(attempt["startTime"]), to = attempt["endTime"] === undefined ? last : seconds1970(attempt["endTime"]);
        const outcome = String(attempt["outcome"]), paused = outcome === "PAUSED" && (i < own.length - 1 || s.table.state(row) === "PAUSED");
        add(paused ? states["PAUSED"]! : i < own.length - 1 ? ["gradient", "given up"] : state, String(attempt["worker"] || "nobody"), from, to, row + 1);
      });
      continue;
    }
    if (attempts[row]! > 1) ++unknown;
    // One attempt ended after its time, whenever the trial became final.
    const to = s.table.state(row) === "RUNNING" ? last : attempts[row] === 1 && Number.isFinite(took[row]) ? start[row]! + took[row]! : Number.isFinite(end[row]) ? end[row]! : last;
    add(state, s.table.word("worker", row) || "nobody", start[row]!, to, row + 1);
  }
  stack([...names.values()], span / seconds / 1500);
  const panel: Panel = {
    x: { label: `${unit} since the first trial began` },
    y: { label: "", min: -0.7, max: Math.max(1, Math.min(rows.size, 41)) - 0.3, ticks: [...[...rows].slice(0, 40).map(([name, at]) => ({ at, text: name })), ...(rows.size > 40 ? [{ at: 40, text: `${rows.size - 40} others` }] : [])] },
    layers: [...names.values()].map((n) => n.layer),
  };
  if (panel.layers.length === 0) {
    panel.empty = "no trial has begun yet";
    panel.y.ticks = [{ at: -9, text: "" }];
  }
  return figure("timeline", "Who ran what, when", `${rows.size} ${rows.size === 1 ? "worker" : "workers"}.${unknown > 0 ? ` ${unknown} trials of several attempts are drawn as one box from the first to the last.` : ""}`, [panel]);
}
