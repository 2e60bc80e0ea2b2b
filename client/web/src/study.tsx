// The page of a study, and of its trials.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { call, CallError, requestId, stream, type Json } from "./api";
import { loadSchema } from "./descriptors";
import { modelOf, yamlOf } from "./yaml";
import { Table } from "./columns";
import * as figures from "./figures";
import { short, type Figure } from "./figure";
import { aims, hasBounds, mainMetric, metricsOf, objectivesOf } from "./metrics";
import { Insights, SetAside } from "./insights";
import { Sections } from "./jump";
import { OtherThanBest, useRecommended, type Recommended } from "./recommended";
import { algorithmOf, algorithmWords, originWords, waitsOf, workerCommand } from "./words";
import { Action, ago, Failure, href, LazyPlot, Legend, Plot, Section, setQuery, State, studyHref, time, useLoaded, useNear, useTitle, useTurn, type Place } from "./parts";

const AHEAD = 20; // Trials that may have ended before one of a lower number.
const MODEL_SECONDS = 15; // Time between two questions for the model, which is fitted for each.
const MOST_ASKED = 2e6; // Characters of the settings of one question.
const MANY_TRIALS = 5000; // From these on the history is drawn before the rest has come.
const MOST_PARAMETERS = 60; // Columns of parameters that the page takes.
const FIXED = ["number", "state", "update_seq", "create_time", "start_time", "end_time", "seconds", "attempts", "worker", "designer", "origin", "step"];

/** Returns the columns that the page asks for; none: all. */
function columnsOf(study: Json): string[] {
  const space = (study["spec"].space ?? []) as Json[];
  if (space.length <= MOST_PARAMETERS) return [];
  const parts = (p: Json) => (p["count"] === undefined ? [""] : [".min", ".median", ".max"]).map((part) => `params.${p["name"]}${part}`);
  return [...FIXED, ...space.slice(0, MOST_PARAMETERS).flatMap(parts), ...metricsOf(study).map((m) => `metrics.${m.name}`), ...(hasBounds(study) ? ["feasible"] : []),
          ...(Number(study["trials"]?.failed ?? 0) > 0 ? ["reason"] : [])];
}

/** Returns the columns of the history, which is seen before the others are there; none: the study is small. */
function firstColumnsOf(study: Json): string[] {
  const trials = Object.values(study["trials"] ?? {}).reduce((sum: number, n) => sum + Number(n), 0);
  if (trials < MANY_TRIALS) return [];
  return ["number", "state", `metrics.${mainMetric(study)}`, ...(hasBounds(study) ? ["feasible"] : [])];
}

let versions = 0; // They count what was shown: a table that is read anew has a version that nothing was made of before.

interface Followed { study: Json | null; version: number; whole: boolean; error: CallError | null; away: string }

/** A study that is kept up to date: a watch wakes, columns bring what changed, at most twice a second. `whole`: all columns are
 * there. Without `rows` its trials are not read. */
export function useStudy(name: string, rows: boolean): Followed & { table: Table } {
  const [state, setState] = useState<Followed>({ study: null, version: 0, whole: false, error: null, away: "" });
  const table = useMemo(() => new Table(), [name]);
  useEffect(() => {
    const stop = new AbortController();
    let woken = true, running = false, timer = 0, version = 0, seen = "0", cost = 0; // Milliseconds that the last change took to draw.
    const next = () => {
      ++version;
      return ++versions;
    };
    const refresh = async () => {
      if (running || stop.signal.aborted) return;
      running = true;
      try {
        while (woken && !stop.signal.aborted) {
          woken = false;
          const study = await call("StudyService/GetStudy", { name }, stop.signal);
          const first = version === 0 && rows ? firstColumnsOf(study) : [];
          if (first.length > 0) {
            await table.begin(name, first, stop.signal);
            if (stop.signal.aborted) return;
            setState({ study, version: next(), whole: false, error: null, away: "" });
          }
          if (rows) await table.refresh(name, columnsOf(study), stop.signal);
          if (stop.signal.aborted) return;
          seen = rows ? table.seq : String(study["updateSeq"] ?? "0");
          const begin = performance.now();
          setState({ study, version: next(), whole: rows, error: null, away: "" });
          requestAnimationFrame(() => setTimeout(() => { cost = performance.now() - begin; }));
        }
      } catch (failure) {
        const error = failure as CallError;
        if (!stop.signal.aborted) setState((s) => ({ ...s, ...(error.passing ? { away: error.message } : { error }) }));
        woken = true;
      }
      running = false;
    };
    const wake = () => {
      woken = true;
      if (timer === 0) timer = window.setTimeout(() => { timer = 0; void refresh(); }, Math.min(2000, 200 + 3 * cost));
    };
    const watch = async () => {
      await refresh();
      for (let wait = 500; !stop.signal.aborted; wait = Math.min(wait * 2, 10000)) {
        if (document.hidden) {
          await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
          wake();
        }
        const hidden = new AbortController();
        const hide = () => { if (document.hidden) hidden.abort(); };
        document.addEventListener("visibilitychange", hide);
        try {
          await stream("StudyService/WatchStudy", { name, afterSeq: seen }, AbortSignal.any([stop.signal, hidden.signal]), () => { wait = 500; wake(); });
        } catch (failure) {
          const error = failure as CallError;
          if (stop.signal.aborted) return;
          if (!hidden.signal.aborted) {
            if (!error.passing) {
              setState((s) => ({ ...s, error }));
              return;
            }
            setState((s) => ({ ...s, away: error.message }));
            await new Promise((resolve) => setTimeout(resolve, wait));
            wake();
          }
        } finally {
          document.removeEventListener("visibilitychange", hide);
        }
      }
    };
    void watch();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [name, rows]);
  return { ...state, table };
}

/** Where trials that are paused wait: those of algorithms that train in parts at a rung, until they are promoted. */
export const pausedWords = (study: Json): string => (study["spec"].resource === undefined ? "paused" : "paused at rungs");

/** Why nothing runs, and what starts it. */
function Why({ study }: { study: Json }): JSX.Element | null {
  const state = String(study["state"] ?? ""), waits = waitsOf(study);
  if (state !== "ACTIVE") return study["stateReason"] ? <p class="why">{study["stateReason"]}</p> : null;
  if (waits === null) return null;
  return (
    <p class="why">{waits.cause && <strong>Why nothing runs: </strong>}{waits.full}
      {/ no worker of /.test(waits.full) && <>. Start one: <code>{workerCommand(study, location.hostname)}</code>, where 7790 is the port of <code>luthierd --listen</code></>}
    </p>
  );
}

const MOST_OF_MESSAGE = 300; // Characters of a failure in the head.

/** The last trial that failed, in a study where all did. */
function LastFailed({ name, study }: { name: string; study: Json }): JSX.Element | null {
  const failed = Number(study["trials"]?.failed ?? 0), ended = Number(study["trials"]?.complete ?? 0) + Number(study["trials"]?.pruned ?? 0), asks = failed > 0 && ended === 0;
  const { value } = useLoaded(async (signal) => (asks ? call("StudyService/ListTrials", { parent: name, pageSize: 1, states: ["FAILED"], orderBy: "number desc" }, signal) : null), [name, failed, asks]);
  const last = ((value?.["trials"] ?? []) as Json[])[0];
  if (!asks || last === undefined) return null;
  const all = Object.values((study["trials"] ?? {}) as Record<string, unknown>).reduce((sum: number, n) => sum + Number(n), 0) === failed;
  const message = String(last["failure"]?.message ?? "").trim().split("\n").at(-1)!, cut = [...message].length > MOST_OF_MESSAGE ? [...message].slice(0, MOST_OF_MESSAGE).join("") + "…" : message;
  return <>; {failed === 1 ? "" : all ? `all ${failed} failed, ` : `${failed} failed, `}{failed > 1 && "the last of them "}<a href={studyHref(name, "trials", String(last["number"]))}>trial {last["number"]}</a>{failed === 1 && " failed"}: <strong>{String(last["failure"]?.reason || "no reason given")}</strong>{cut && <>, <bdi>{cut}</bdi></>}</>;
}

function Counts({ study }: { study: Json }): JSX.Element {
  const counts = study["trials"] ?? {};
  const most = Number(study["spec"].budget?.maxTrials ?? 100);
  const names = ["complete", "pruned", "failed", "running", "paused", "pending", "cancelled"].filter((n) => Number(counts[n] ?? 0) > 0);
  const word = (n: string) => (n === "pruned" ? "stopped early" : n === "paused" ? pausedWords(study) : n);
  return <span>{names.length === 0 ? "no trials yet" : names.map((n) => `${counts[n]} ${word(n)}`).join(", ")} of {most}</span>;
}

const MOST_LINKS = 12; // Trials of the front that the head names.
const MOST_NAMED = 8; // Parameters of the best trial that the head has.

/** The study as a study file, once somebody asks for it. */
function StudyFile({ study }: { study: Json }): JSX.Element {
  const [text, setText] = useState("");
  const show = async () => {
    const schema = await loadSchema(), message = schema.messages.get("luthier.v1.StudySpec")!;
    setText(yamlOf(schema, message, modelOf(schema, message, study["spec"])));
  };
  return (
    <details onToggle={(e) => { if (e.currentTarget.open && text === "") show().catch((failure) => setText(String(failure))); }}>
      <summary>The study file, with all defaults</summary><pre tabIndex={0}>{text || "…"}</pre>
    </details>
  );
}

/** The setting of a trial that is the best, or is recommended; "": there is none. */
function Setting({ name, study, trial, label }: { name: string; study: Json; trial: string; label: string }): JSX.Element | null {
  const { value } = useLoaded(async (signal) => (trial === "" || trial === "0" ? null : call("StudyService/GetTrial", { name: `${name}/trials/${trial}` }, signal)), [name, trial]);
  if (value === null || String(value["number"]) !== trial) return null;
  const given = (value["parameters"] ?? {}) as Json, names = ((study["spec"].space ?? []) as Json[]).map((p) => String(p["name"])).filter((n) => Object.hasOwn(given, n));
  const word = (v: unknown) => (typeof v === "number" ? short(v) : Array.isArray(v) ? `${v.length} numbers` : String(v));
  return <p>{label} setting: {names.slice(0, MOST_NAMED).map((n, i) => <span key={n}>{i > 0 && ", "}<bdi>{n}</bdi> <strong><bdi>{word(given[n])}</bdi></strong></span>)}{names.length > MOST_NAMED && <> and {names.length - MOST_NAMED} more</>}.</p>;
}

/** What a study with constraints, with bounds or with several objectives has come to. */
function Outcome({ study }: { study: Json }): JSX.Element {
  const hasReferences = objectivesOf(study).every((m) => m.reference !== undefined);
  const front = ((study["front"] ?? []) as unknown[]).length, infeasible = Number(study["infeasible"] ?? 0), least = study["leastViolatingTrial"];
  return (
    <>
      {front > 0 && <>; {front} on the front: {(study["front"] as string[]).slice(0, MOST_LINKS).map((n, i) => <span key={n}>{i > 0 && ", "}<a href={studyHref(String(study["name"]), "trials", n)}>{n}</a></span>)}{front > MOST_LINKS && " …"}</>}
      {study["frontOverflowed"] && <>; more trials on the front than are listed</>}
      {study["hypervolume"] !== undefined && <>; <span title={hasReferences ? "What the front is better than, up to the reference of each objective, in a product of their units: it never falls." : "What the front is better than, as a share of the box from a point behind its worst values to its best. Both move with the front; give each objective a reference to compare."}>hypervolume {hasReferences ? short(Number(study["hypervolume"])) : `${short(100 * Number(study["hypervolume"]))} % of its box`} (larger is better)</span></>}
      {infeasible > 0 && <>; {infeasible} beyond a bound</>}
      {study["legalShare"] !== undefined && <>; constraints leave {short(100 * Number(study["legalShare"]))} % of the space</>}
      {least !== undefined && <>, the least so <a href={studyHref(String(study["name"]), "trials", String(least))}>trial {least}</a></>}
    </>
  );
}

/** The head of the page of a trial, which has its own. */
function TrialHead({ name, study }: { name: string; study: Json }): JSX.Element {
  return (
    <nav class="crumbs" aria-label="Study">
      <a href={studyHref(name)}><bdi>{study["spec"].displayName || name.split("/")[3]}</bdi></a> <State name={String(study["state"] ?? "")} /> <a href={studyHref(name, "trials")}>All trials</a>
    </nav>
  );
}

function Head({ name, study, place, recommended }: { name: string; study: Json; place: Place; recommended: Recommended | null }): JSX.Element {
  const control = (verb: string) => () => call(`StudyService/${verb}Study`, { name, requestId: requestId() });
  const state = String(study["state"] ?? "");
  const best = study["bestValue"];
  const tab = (label: string, ...path: string[]) => (
    <a href={studyHref(name, ...path)} aria-current={(place.parts[3] ?? "") === (path[0] ?? "") ? "page" : undefined}>{label}</a>
  );
  return (
    <header class="head">
      <h1><bdi>{study["spec"].displayName || name.split("/")[3]}</bdi> <State name={state} /></h1>
      <Why study={study} />
      <p>
        <Counts study={study} />
        {best !== undefined && <>; best {mainMetric(study)} <strong>{short(Number(best))}</strong> in <a href={studyHref(name, "trials", String(study["bestTrial"]))}>trial {study["bestTrial"]}</a></>}
        {recommended !== null && <>; recommended <a href={studyHref(name, "trials", recommended.trial)}>trial {recommended.trial}</a></>}
        <Outcome study={study} />
        <LastFailed name={name} study={study} />
      </p>
      {recommended !== null && <OtherThanBest study={study} recommended={recommended} />}
      <p>To {aims(study)}, by {algorithmOf(study)}{algorithmWords(study) && <>: {algorithmWords(study)}</>}{study["spec"].algorithm?.auto !== undefined && study["resolvedAlgorithm"] && " (chosen by auto)"}.</p>
      {recommended !== null && <Setting name={name} study={study} trial={String(recommended.trial)} label="Recommended" />}
      <Setting name={name} study={study} trial={String(study["bestTrial"] ?? "")} label="Best" />
      <StudyFile study={study} />
      <SetAside study={study} />
      {(study["algorithmReasons"] ?? []).length > 0 && <details><summary>Why this algorithm</summary><ul>{(study["algorithmReasons"] as string[]).map((r) => <li key={r}>{r}</li>)}</ul></details>}
      <p class="actions">
        {state === "ACTIVE" && <Action label="Pause" run={control("Pause")} />}
        {state === "PAUSED" && <Action label="Resume" run={control("Resume")} />}
        {(state === "ACTIVE" || state === "PAUSED") && <Action label="Stop" confirm="Really stop: no more trials?" run={control("Stop")} />}
        {(state === "ACTIVE" || state === "PAUSED" || state === "STOPPED") && <Action label="Cancel" confirm="Really cancel all running trials?" run={control("Cancel")} />}
      </p>
      <nav aria-label="Parts of the study" class="tabs">{tab("Plots")}{tab("Trials", "trials")}</nav>
    </header>
  );
}

let asked: Promise<unknown> = Promise.resolve();

/** Asks the study's model. One question follows the other, since the coordinator fits one model at a time; one that
 * comes too early is asked again. */
async function predict(name: string, settings: Json[], atSeq: string, signal: AbortSignal): Promise<Json[]> {
  // Settings of many parameters are asked for in parts, of which each fits a request.
  const parts: Json[][] = [];
  let size = Infinity;
  for (const setting of settings) {
    const more = JSON.stringify(setting).length;
    if ((size += more) > MOST_ASKED) [size] = [more, parts.push([])];
    parts[parts.length - 1]!.push(setting);
  }
  const all: Json[] = [];
  for (const part of parts) all.push(...(await predictPart(name, part, atSeq, signal)));
  return all;
}

async function predictPart(name: string, settings: Json[], atSeq: string, signal: AbortSignal): Promise<Json[]> {
  const before = asked;
  let done: () => void = () => undefined;
  asked = new Promise<void>((resolve) => { done = resolve; });
  await before;
  try {
    for (let turn = 0; ; ++turn) {
      try {
        const answer = await call("StudyService/Predict", { name, settings, ...(atSeq === "" ? {} : { atSeq }) }, signal);
        return (answer["predictions"] ?? []) as Json[];
      } catch (failure) {
        if (!(failure as CallError).passing || signal.aborted || turn === 4) throw failure;
        await new Promise((resolve) => setTimeout(resolve, 500 * (turn + 1)));
      }
    }
  } finally {
    done();
  }
}

/** Returns the best setting with all that never changes; a parameter may have any name. */
function bestSetting(s: figures.Subject, best: number): Json {
  const setting: Json = Object.create(null);
  for (const c of figures.coordinates(s, 1e9)) if (Number.isFinite(c.at(best))) setting[c.name] = c.value(c.at(best));
  for (const p of s.study["spec"].space as Json[]) {
    const range = p["float"] ?? p["int"];
    if (range && Number(range["min"]) === Number(range["max"])) setting[p["name"]] = Number(range["min"]);
  }
  return setting;
}

interface Shown { s: figures.Subject; coordinates: figures.Coordinate[]; version: number; place: Place; atSeq: string; open: (trial: number) => void }

/** What the model expects over two parameters. */
function Contour({ s, coordinates, version, place, atSeq, open, likely }: Shown & { likely: string[] | null }): JSX.Element {
  const [model, setModel] = useState<{ of: string; x: number[]; y: number[]; means: number[] } | null>(null);
  const [without, setWithout] = useState({ of: "", why: "" }); // For which there is no model.
  const [again, setAgain] = useState(0);
  const [box, near] = useNear();
  const turn = useTurn(version, MODEL_SECONDS);
  const names = coordinates.map((c) => c.name);
  // Two are kept once they are shown, so that no answer of importance changes what one looks at.
  const shown = useRef<string[] | null>(null);
  if (shown.current === null && near && likely !== null) shown.current = likely.filter((n) => names.includes(n));
  const known = shown.current ?? [];
  const pick = (query: string, other: string | undefined) => coordinates.find((c) => c.name === place.query.get(query)) ?? coordinates.find((c) => c.name === known[query === "x" ? 0 : 1] && c.name !== other) ?? coordinates.find((c) => c.name !== other)!;
  const a = pick("x", undefined), b = pick("y", a.name);
  const best = figures.bestRow(s), of = `${a.name}\n${b.name}\n${atSeq}`;
  const withoutAsk = [a, b].find((c) => !c.ask)?.name, isVector = ((s.study["spec"].space ?? []) as Json[]).some((p) => p["name"] === withoutAsk && p["count"] !== undefined);
  const why = best < 0 ? "since no trial is the best one yet" : a.name === b.name ? "since both axes are the same parameter" : s.metric !== mainMetric(s.study) ? `since the model that can be asked is that of ${mainMetric(s.study)}`
    : withoutAsk === undefined ? "" : isVector ? `since the model is not drawn along the numbers of ${withoutAsk}` : `since the model is not drawn along ${withoutAsk}, on which other parameters depend`;
  const asks = why === "";
  useEffect(() => {
    const stop = new AbortController();
    if (!near || !asks) return;
    const timer = setTimeout(() => {
      const setting = bestSetting(s, best), x = figures.places(a, 30), y = figures.places(b, 30);
      const settings = y.flatMap((v) => x.map((u) => ({ ...setting, [a.name]: a.value(u), [b.name]: b.value(v) })));
      predict(s.study["name"], settings, atSeq, stop.signal).then(
        (answer) => setModel({ of, x, y, means: answer.map((p) => Number(p["mean"] ?? 0)) }),
        (failure) => {
          if (stop.signal.aborted) return;
          setModel(null);
          const error = failure as CallError;
          setWithout({ of, why: error.passing ? "since the coordinator is busy: its model is asked again soon" : `since there is no model: ${error.message}` });
          if (error.passing) later = window.setTimeout(() => setAgain((n) => n + 1), 1000 * MODEL_SECONDS);
        });
    }, 300);
    let later = 0;
    return () => {
      stop.abort();
      clearTimeout(timer);
      clearTimeout(later);
    };
  }, [near, of, turn, again]);
  const select = (query: string, chosen: figures.Coordinate) => (
    <select value={chosen.name} onChange={(e) => setQuery(place, query, e.currentTarget.value)}>{names.map((n) => <option key={n} value={n}>{n}</option>)}</select>
  );
  return (
    <div ref={box}>
      {shown.current === null && !(place.query.has("x") && place.query.has("y")) ? <p class="faint" style={{ minHeight: 400 }}>loading…</p> : (
        <>
          <p class="filters"><label>Across {select("x", a)}</label><label>Up {select("y", b)}</label></p>
          <LazyPlot make={() => figures.contour(s, a, b, model !== null && model.of === of ? model : null, why || (without.of === of ? without.why : ""))} inputs={[version, model, of, s.metric, s.recommended, why, without]} height={360} onTrial={open} />
        </>
      )}
    </div>
  );
}

function useModel(s: figures.Subject, coordinates: figures.Coordinate[], near: boolean, version: number, atSeq: string): Map<string, { x: number[]; predictions: Json[] }> {
  const [models, setModels] = useState(new Map<string, { x: number[]; predictions: Json[] }>());
  const best = figures.bestRow(s), turn = useTurn(version, MODEL_SECONDS), [again, setAgain] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    if (!near) return;
    const asked = coordinates.filter((c) => c.ask && Number.isFinite(c.at(best)));
    if (best < 0 || asked.length === 0) return;
    const setting = bestSetting(s, best);
    const per = Math.min(40, Math.floor(1000 / asked.length));
    const x = asked.map((c) => figures.places(c, per));
    const settings = asked.flatMap((c, k) => x[k]!.map((at) => ({ ...setting, [c.name]: c.value(at) })));
    predict(s.study["name"], settings, atSeq, stop.signal).then(
      (all) => {
        let from = 0;
        setModels(new Map(asked.map((c, k) => [c.name, { x: x[k]!, predictions: all.slice(from, (from += x[k]!.length)) }])));
      },
      (failure) => { // Algorithms without a model are drawn without one; one that is busy is asked again.
        if (stop.signal.aborted) return;
        if ((failure as CallError).passing) later = window.setTimeout(() => setAgain((n) => n + 1), 1000 * MODEL_SECONDS);
        else setModels(new Map());
      },
    );
    let later = 0;
    return () => {
      stop.abort();
      clearTimeout(later);
    };
  }, [near, best < 0, turn, atSeq, s.metric, again]);
  return models;
}

function useSlopes(s: figures.Subject, near: boolean, version: number, at: number): figures.Slope[] {
  const [slopes, setSlopes] = useState<figures.Slope[]>([]);
  const turn = useTurn(version, MODEL_SECONDS);
  useEffect(() => {
    const stop = new AbortController();
    if (!near) return;
    const order = `metrics.${s.metric}${figures.maximize(s) ? " desc" : ""}`;
    call("StudyService/ListTrials", { parent: s.study["name"], pageSize: 60, states: ["COMPLETE"], orderBy: order, ...(at > 0 ? { filter: `number <= ${at + AHEAD}` } : {}) }, stop.signal).then(
      (answer) => {
        const names: string[] = [];
        for (const p of s.study["spec"].space as Json[]) {
          if (!p["float"] || p["float"].step !== undefined) continue;
          for (let i = 0; i < Number(p["count"] ?? 1); ++i) names.push(p["count"] === undefined ? p["name"] : "");
        }
        setSlopes(((answer["trials"] ?? []) as Json[]).flatMap((trial) => {
          const full = trial["finalMeasurement"]?.gradient?.full?.values as number[] | undefined;
          if (full === undefined) return [];
          return [{ trial: Number(trial["number"]), value: Number(trial["finalMeasurement"].metrics[s.metric]), parameters: trial["parameters"], gradient: new Map(names.map((n, i) => [n, Number(full[i])])) }];
        }));
      },
      () => undefined,
    );
    return () => stop.abort();
  }, [near, turn, s.metric, at]);
  return slopes;
}

function Curves({ s, version, open }: Shown): JSX.Element {
  const [trials, setTrials] = useState<Json[] | null>(null);
  const [box, near] = useNear();
  const turn = useTurn(version, 30);
  useEffect(() => {
    const stop = new AbortController();
    if (!near) return;
    const value = figures.values(s), rows: number[] = [];
    for (let row = 0; row < s.table.rows; ++row) if (s.table.exists(row)) rows.push(row);
    const sign = figures.maximize(s) ? -1 : 1;
    const rank = (row: number) => (Number.isFinite(value[row]) ? sign * value[row]! : Infinity);
    // The best twenty and forty of all the others: numbers alone are sorted fast, a hundred thousand rows are not.
    const ranks = new Float64Array(rows.map(rank)).sort();
    const places = rows.length <= 60 ? rows.map((_, i) => i) : [...Array(20).keys(), ...Array.from({ length: 40 }, (_, i) => 20 + Math.floor((i * (rows.length - 20)) / 40))];
    const wanted = new Map<number, number>();
    for (const place of places) wanted.set(ranks[place]!, (wanted.get(ranks[place]!) ?? 0) + 1);
    const chosen = rows.filter((row) => {
      if (row === figures.bestRow(s)) return true; // Trials that were stopped early may have better values.
      const left = wanted.get(rank(row)) ?? 0;
      if (left > 0) wanted.set(rank(row), left - 1);
      return left > 0;
    }).sort((a, b) => rank(a) - rank(b) || a - b);
    const load = async () => {
      const got: Json[] = [];
      for (let i = 0; i < chosen.length; i += 6) {
        const part = await Promise.all(chosen.slice(i, i + 6).map((row) => call("StudyService/GetTrial", { name: `${s.study["name"]}/trials/${row + 1}`, withMeasurements: true, maxMeasurements: 300 }, stop.signal).catch(() => ({}))));
        if (stop.signal.aborted) return;
        got.push(...part.filter((t) => (t as Json)["measurements"]));
        // Studies without curves are not asked sixty times.
        if (i === 12 && got.length === 0) break;
      }
      setTrials(got);
    };
    void load();
    return () => stop.abort();
  }, [near, turn, s.metric, s.table.rows === 0]);
  return (
    <div ref={box}>
      {trials === null ? <div class="faint" style={{ minHeight: 300 }}>loading…</div> : trials.length === 0 ? <p>No trial has reported a learning curve.</p>
        : <LazyPlot make={() => figures.curves(s, trials)} inputs={[trials, s.metric]} height={300} onTrial={open} />}
    </div>
  );
}

/** The metric over each parameter, with the model and the slopes. */
function Slices({ s, coordinates, version, place, atSeq, open }: Shown): JSX.Element {
  const [box, near] = useNear();
  const models = useModel(s, s.metric === mainMetric(s.study) ? coordinates : [], near, version, atSeq);
  const slopes = useSlopes(s, near, version, Number(place.query.get("at") ?? 0) || 0);
  // They share a legend and a caption, which would else be most of what one sees.
  const made = useRef(new Map<string, Figure>()), [, again] = useState(0);
  const note = (name: string) => (figure: Figure) => {
    made.current.set(name, figure);
    again((n) => n + 1);
  };
  const all = coordinates.flatMap((c) => made.current.get(c.name) ?? []), captions = [...new Set(all.map((figure) => figure.caption))];
  return (
    <div ref={box}>
      <div class="grid">
        {coordinates.map((c) => <LazyPlot key={c.name} brief onMade={note(c.name)} make={() => figures.slice(s, c, models.get(c.name) ?? null, slopes)} inputs={[version, s.metric, s.recommended, models, slopes, atSeq]} height={240} onTrial={open} />)}
      </div>
      <Legend panels={all.map((figure) => figure.panels[0]!)} />
      <p class="caption">{captions.filter((text) => !captions.some((longer) => longer !== text && longer.startsWith(text))).join(" ")}</p>
    </div>
  );
}

/** Trials by two objectives. */
function Front({ s, version, place, atSeq, open, objectives }: Shown & { objectives: string[] }): JSX.Element {
  const chosen = (query: string, i: number) => (objectives.includes(place.query.get(query) ?? "") ? place.query.get(query)! : objectives[i]!);
  const select = (query: string, i: number) => (
    <select value={chosen(query, i)} onChange={(e) => setQuery(place, query, e.currentTarget.value)}>{objectives.map((n) => <option key={n} value={n}>{n}</option>)}</select>
  );
  const a = chosen("a", 0), b = chosen("b", 1);
  return (
    <>
      {objectives.length > 2 && <p class="filters"><label>Across {select("a", 0)}</label><label>Up {select("b", 1)}</label></p>}
      <LazyPlot make={() => figures.front(s, a, b)} inputs={[version, a, b, atSeq]} height={360} onTrial={open} />
    </>
  );
}

const MOST_SEVERAL = 1000; // Trials of several attempts whose attempts are drawn, the newest ones.

/** When trials ran: those of several attempts are read for the times of these. */
function Timeline({ s, version, place, open }: Shown): JSX.Element {
  const [trials, setTrials] = useState<Json[] | null>(null);
  const [box, near] = useNear();
  const turn = useTurn(version, 15), [time, setTime] = useState(0), runs = Number(s.study["trials"]?.running ?? 0) > 0;
  useEffect(() => { // Bars of trials that run grow, whether or not these report.
    const timer = runs && near ? setInterval(() => setTime((n) => n + 1), 5000) : 0;
    return () => clearInterval(timer);
  }, [runs, near]);
  useEffect(() => {
    const stop = new AbortController(), attempts = s.table.number("attempts");
    let first = 0, last = 0, count = 0;
    for (let row = s.table.rows - 1; row >= 0 && count < MOST_SEVERAL; --row) {
      if (!(attempts[row]! > 1)) continue;
      first = row + 1;
      last ||= row + 1;
      ++count;
    }
    if (!near) return;
    if (count === 0) {
      setTrials([]);
      return;
    }
    call("StudyService/ListTrials", { parent: s.study["name"], pageSize: 1000, filter: `number >= ${first} AND number <= ${last}`, orderBy: "number desc" }, stop.signal).then(
      (answer) => setTrials(((answer["trials"] ?? []) as Json[]).filter((trial) => ((trial["attempts"] ?? []) as Json[]).length > 1)),
      () => { if (!stop.signal.aborted) setTrials((before) => before ?? []); }, // They are drawn without pauses.
    );
    return () => stop.abort();
  }, [near, turn]);
  return (
    <div ref={box}>
      {trials === null ? <div class="faint" style={{ minHeight: 160 }}>loading…</div> : <LazyPlot make={() => figures.timeline(s, trials)} inputs={[version, place.query.get("at"), trials, time]} height={Math.min(800, 120 + 24 * Math.max(1, s.table.wordsIn("worker").length))} onTrial={open} />}
    </div>
  );
}

interface Matters { figure: Figure; warnings: string[] }

function matters(answer: Json): Matters {
  return { figure: figures.importance(answer), warnings: (answer["warnings"] ?? []) as string[] };
}

function Importance({ figure, warnings }: Matters): JSX.Element {
  return (
    <>
      {warnings.length > 0 && <div class="away" role="note"><strong>How far to trust it:</strong> {warnings[0]}{warnings.length > 1 && <details><summary>{warnings.length - 1} more</summary><ul>{warnings.slice(1).map((text) => <li key={text}>{text}</li>)}</ul></details>}</div>}
      <Plot figure={figure} height={60 + 34 * Math.max(1, figure.panels[0]!.layers[0]!.x.length)} />
    </>
  );
}

interface OfStudy { name: string; study: Json; table: Table; version: number; place: Place; recommended: Recommended | null }

function Plots({ name, study, table, version, whole, place, recommended }: OfStudy & { whole: boolean }): JSX.Element {
  const metrics = table.names().filter((n) => n.startsWith("metrics.")).map((n) => n.slice(8));
  const metric = place.query.get("metric") ?? mainMetric(study);
  const at = Math.min(table.rows, Math.max(0, Number(place.query.get("at") ?? 0) || 0));
  // What is recommended is so now, by values of the objective.
  const advised = at === 0 && metric === mainMetric(study) ? recommended?.trial ?? 0 : 0;
  const s: figures.Subject = { study, table, metric, recommended: advised };
  const atSeq = table.lookBack(at);
  const coordinates = figures.coordinates(s, 8), objectives = objectivesOf(study).map((m) => m.name);
  const turn = useTurn(version, 60);
  const importance = useLoaded(async (signal) => (whole ? matters(await call("StudyService/GetImportance", { name, metric }, signal)) : null), [name, metric, turn, whole]);
  const open = (trial: number) => { location.hash = studyHref(name, "trials", trial); };
  const any = whole && figures.anyResult(s);
  const shown: Shown = { s, coordinates, version, place, atSeq, open };
  const inputs = [version, metric, at, advised];
  const [late, setLate] = useState(false); // Nobody waits longer to hear which parameters matter most.
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 5000);
    return () => clearTimeout(timer);
  }, []);
  const likely = importance.value?.figure.panels[0]!.y.ticks?.map((t) => t.text) ?? (late || importance.error !== null || at > 0 ? [] : null);
  if (!whole && (table.rows === 0 || at > 0 || metric !== mainMetric(study))) return <p role="status">… loading</p>;
  return (
    <Sections place={place} whole={whole} last={<a href={studyHref(name, "trials")}>Trials</a>}>
      {metrics.length > 1 && (
        <p><label>Metric <select value={metric} onChange={(e) => setQuery(place, "metric", e.currentTarget.value)}>{metrics.map((m) => <option key={m} value={m}>{m}</option>)}</select></label></p>
      )}
      {table.rows > 1 && (
        <p class="filters">
          <label>As it was after trial <input disabled={!whole} ref={(input) => { if (input) { input.max = String(table.rows); input.value = String(at || table.rows); } }} type="range" min="1" max={table.rows} aria-valuetext={at ? `trial ${at}` : "now"} onInput={(e) => setQuery(place, "at", Number(e.currentTarget.value) >= table.rows ? "" : e.currentTarget.value)} /></label>
          <output>{at ? `${at} of ${table.rows}` : "now"}</output>
          {at > 0 && <button type="button" onClick={() => setQuery(place, "at", "")}>Now</button>}
        </p>
      )}
      {any && objectives.length > 1 && <Section title="Front"><Front {...shown} objectives={objectives} /></Section>}
      <Section title="History"><LazyPlot make={() => figures.history(s)} inputs={inputs} height={340} onTrial={open} /></Section>
      {whole && !any && <p>{["COMPLETED", "CANCELLED", "STOPPED"].includes(String(study["state"])) && Number(study["trials"]?.running ?? 0) === 0 ? "No trial has a result, and the study has ended: there are no other figures." : "The other figures come with the first result."}</p>}
      {any && (
        <>
          <Section title="Settings and values"><LazyPlot make={() => figures.parallel(s, coordinates)} inputs={inputs} height={340} onTrial={open} /></Section>
          <Section title="Over each parameter"><Slices {...shown} /></Section>
          {coordinates.length > 1 && <Section title="Over two parameters"><Contour {...shown} likely={likely} /></Section>}
          {at === 0 && <Insights s={s} version={version} open={open} />}
          {at === 0 && <Section title="Importance">{importance.value ? <Importance {...importance.value} /> : <p>{importance.error?.message ?? <span class="faint">loading…</span>}</p>}</Section>}
        </>
      )}
      {any && <Section title="How good the trials are"><LazyPlot make={() => figures.edf([{ s, name: "" }])} inputs={inputs} height={300} /></Section>}
      {whole && at === 0 && table.rows > 0 && <Section title="Learning curves"><Curves {...shown} /></Section>}
      {whole && table.rows > 0 && <Section title="Who ran what, when"><Timeline {...shown} /></Section>}
    </Sections>
  );
}

const ROW = 30; // Pixels of a row.
const MOST_SHOWN = 40; // Columns of parameters in the table.

function Trials({ name, study, table, version, place, recommended }: OfStudy): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const order = place.query.get("order") ?? "number", state = place.query.get("state") ?? "", find = place.query.get("find") ?? "";
  const metric = mainMetric(study);
  table.lookBack(0);
  const columns = ["number", "state", `metrics.${metric}`, ...table.names().filter((n) => n.startsWith("metrics.") && n !== `metrics.${metric}`), ...(table.has("feasible") ? ["feasible"] : []), ...(table.has("reason") ? ["reason"] : []),
                   ...table.names().filter((n) => n.startsWith("params.")).slice(0, MOST_SHOWN), ...(table.has("step") ? ["step"] : []), "seconds", "attempts", "worker", "designer", "origin"];
  const rows = useMemo(() => {
    const out: number[] = [];
    for (let row = 0; row < table.rows; ++row) {
      if (!table.exists(row) || (state !== "" && table.word("state", row) !== state)) continue;
      if (find !== "" && !columns.some((c) => cell(table, c, row).includes(find))) continue;
      out.push(row);
    }
    const column = order.replace(/^-/, ""), sign = order.startsWith("-") ? -1 : 1;
    if (table.isText(column)) out.sort((a, b) => sign * compare(table.word(column, a), table.word(column, b)) || a - b);
    else {
      const value = table.number(column);
      out.sort((a, b) => (Number.isNaN(value[a]) ? 1 : 0) - (Number.isNaN(value[b]) ? 1 : 0) || sign * (value[a]! - value[b]!) || a - b);
    }
    return out;
  }, [version, order, state, find]);
  const front = new Set(((study["front"] ?? []) as unknown[]).map(Number)), best = Number(study["bestTrial"] ?? 0);
  const origins = table.wordsIn("origin").filter((word) => originWords(word) !== "");
  const titleOf = (c: string, row: number): string | undefined => {
    if (!table.isText(c)) return undefined;
    const word = table.word(c, row);
    return c === "origin" ? originWords(word) || undefined : word.length > 24 ? word : undefined;
  };
  const height = Math.max(300, innerHeight), first = Math.max(0, Math.floor(top / ROW) - 10), last = Math.min(rows.length, first + Math.ceil(height / ROW) + 20);
  const states = ["COMPLETE", "PRUNED", "FAILED", "RUNNING", "PAUSED", "PENDING", "CANCELLED"];
  return (
    <>
      <p class="filters">
        <label>State <select value={state} onChange={(e) => setQuery(place, "state", e.currentTarget.value)}><option value="">all</option>{states.map((w) => <option key={w} value={w}>{w}</option>)}</select></label>
        <label>Find <input value={find} onChange={(e) => setQuery(place, "find", e.currentTarget.value)} /></label>
        <span role="status">{rows.length} {rows.length === 1 ? "trial" : "trials"}</span>
        <button type="button" onClick={() => download(`${name.split("/")[3]}.csv`, csvOf(table, columns, rows))}>As CSV</button>
      </p>
      <div class="scroll virtual" ref={box} tabIndex={0} role="region" aria-label="Trials" onScroll={(e) => setTop(e.currentTarget.scrollTop)}>
        <table aria-rowcount={rows.length + 1}>
          <thead><tr>{columns.map((c) => (
            <th key={c} scope="col" class={table.isText(c) ? "" : "number"} aria-sort={order === c ? "ascending" : order === `-${c}` ? "descending" : "none"}>
              <button type="button" class="link" onClick={() => setQuery(place, "order", order === c ? `-${c}` : c)}>{c.replace(/^(params|metrics)\./, "")}{order === c ? " ▲" : order === `-${c}` ? " ▼" : ""}</button>
            </th>))}</tr></thead>
          <tbody>
            {first > 0 && <tr style={{ height: first * ROW }} aria-hidden="true"><td colSpan={columns.length} /></tr>}
            {rows.slice(first, last).map((row, i) => (
              <tr key={row} style={{ height: ROW }} aria-rowindex={first + i + 2}>{columns.map((c) => (
                <td key={c} class={table.isText(c) ? "long" : "number"} title={titleOf(c, row)}>{c === "number" ? <a href={studyHref(name, "trials", row + 1)}>{row + 1}</a> : c === "state" ? <><State name={table.word(c, row)} />{recommended?.trial === row + 1 && <span class="mark" title="results are noisy: the trial whose setting is expected to be the best"> recommended</span>}{best === row + 1 ? <span class="mark" title="the best trial"> best</span> : front.has(row + 1) && <span class="mark" title="on the front: no other trial is at least as good in all objectives"> front</span>}</> : cell(table, c, row)}</td>))}</tr>))}
            {last < rows.length && <tr style={{ height: (rows.length - last) * ROW }} aria-hidden="true"><td colSpan={columns.length} /></tr>}
          </tbody>
        </table>
      </div>
      {origins.length > 0 && <p class="caption">Origins: {origins.map((word, i) => <span key={word}>{i > 0 && "; "}<strong>{word}</strong> {originWords(word)}</span>)}.</p>}
    </>
  );
}

/** Returns rows of the table as comma-separated values, with all digits. */
export function csvOf(table: Pick<Table, "isText" | "word" | "number">, columns: string[], rows: number[]): string {
  // A program for tables would run what begins like a formula.
  const quoted = (text: string) => (/^[=+\-@\t\r]/.test(text) ? `"'${text.replace(/"/g, '""')}"` : /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  const cells = columns.map((c) => {
    if (table.isText(c)) return (row: number) => quoted(table.word(c, row));
    const values = table.number(c);
    return (row: number) => (Number.isNaN(values[row]) ? "" : String(values[row]));
  });
  return [columns.map(quoted).join(","), ...rows.map((row) => cells.map((of) => of(row)).join(","))].join("\r\n") + "\r\n";
}

function download(file: string, text: string): void {
  const link = document.createElement("a"), url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.href = url;
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function cell(table: Table, column: string, row: number): string {
  if (table.isText(column)) return table.word(column, row);
  const value = table.number(column)[row]!;
  return Number.isNaN(value) ? "" : short(value);
}

/** A study that is not there: whether it was deleted, and how it comes back. */
function Gone({ name }: { name: string }): JSX.Element {
  const [, project = "", , id = ""] = name.split("/");
  const { value } = useLoaded(async (signal) => {
    const list: Json[] = [];
    for (let token = ""; list.length === 0 || token !== "";) {
      const page = await call("StudyService/ListStudies", { parent: `projects/${project}`, deleted: true, pageSize: 1000, pageToken: token }, signal);
      list.push(...((page["studies"] ?? []) as Json[]));
      token = String(page["nextPageToken"] ?? "");
      if (token === "") break;
    }
    return list.find((study) => study["name"] === name) ?? null;
  }, [name]);
  return (
    <div class="failure" role="alert">
      {value === null ? <p>There is no study <strong>{id}</strong> in project {project}.</p> : (
        <p>The study <strong>{id}</strong> was deleted {ago(value["deleteTime"])}, and can be brought back until {time(value["purgeTime"])}: <code>luthier study undelete {project === "default" ? id : `${project}/${id}`}</code>{" "}
          <Action label="Bring it back" run={async () => { await call("StudyService/UndeleteStudy", { name, requestId: requestId() }); location.reload(); }} /></p>
      )}
      <p><a href={href("studies")}>All studies</a></p>
    </div>
  );
}

/** The page of a study; with `children` that of one of its trials, of which it has the head alone. */
export function StudyPage({ name, place, children }: { name: string; place: Place; children?: (study: Json, recommended: Recommended | null) => JSX.Element }): JSX.Element {
  const { study, table, version, whole, error, away } = useStudy(name, children === undefined);
  const recommended = useRecommended(name, study, version, whole || children !== undefined);
  useTitle(`${children === undefined ? "" : `Trial ${place.parts[4]} of `}${study?.["spec"].displayName || name.split("/")[3]}`);
  if (error !== null && error.code === "not_found") return <Gone name={name} />;
  if (error !== null) return <><Failure error={error} again={() => location.reload()} /><p><a href={href("studies")}>All studies</a></p></>;
  if (study === null) return away ? <Failure error={new CallError("unavailable", away)} /> : <p role="status">…</p>;
  return (
    <>
      {away && <p class="away" role="status">Connection lost, trying again: {away}</p>}
      {children ? <TrialHead name={name} study={study} /> : <Head name={name} study={study} place={place} recommended={recommended} />}
      {children ? children(study, recommended) : place.parts[3] === "trials" ? <Trials {...{ name, study, table, version, place, recommended }} />
        : <Plots {...{ name, study, table, version, whole, place, recommended }} />}
      <p class="faint">Changed {ago(study["updateTime"])}.</p>
    </>
  );
}
