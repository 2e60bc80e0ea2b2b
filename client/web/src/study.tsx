// The page of a study, and of its trials.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { call, CallError, requestId, stream, type Json } from "./api";
import { Table } from "./columns";
import * as figures from "./figures";
import { short, type Figure } from "./figure";
import { Action, ago, Failure, Plot, Section, setQuery, State, studyHref, useLoaded, type Place } from "./parts";

/** A study that is kept up to date: a watch wakes, columns bring what changed, at most twice a second. */
export function useStudy(name: string): { study: Json | null; table: Table; version: number; error: CallError | null; away: string } {
  const [state, setState] = useState<{ study: Json | null; version: number; error: CallError | null; away: string }>({ study: null, version: 0, error: null, away: "" });
  const table = useMemo(() => new Table(), [name]);
  useEffect(() => {
    const stop = new AbortController();
    let woken = true, running = false, timer = 0, version = 0;
    const refresh = async () => {
      if (running || stop.signal.aborted) return;
      running = true;
      try {
        while (woken && !stop.signal.aborted) {
          woken = false;
          const [study] = await Promise.all([call("StudyService/GetStudy", { name }, stop.signal), table.refresh(name, stop.signal)]);
          if (!stop.signal.aborted) setState({ study, version: ++version, error: null, away: "" });
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
      if (timer === 0) timer = window.setTimeout(() => { timer = 0; void refresh(); }, 250);
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
          await stream("StudyService/WatchStudy", { name, afterSeq: table.seq }, AbortSignal.any([stop.signal, hidden.signal]), () => { wait = 500; wake(); });
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
  }, [name]);
  return { ...state, table };
}

function Counts({ study }: { study: Json }): JSX.Element {
  const counts = study["trials"] ?? {};
  const most = Number(study["spec"].budget?.maxTrials ?? 100);
  const names = ["complete", "pruned", "failed", "running", "paused", "pending", "cancelled"].filter((n) => Number(counts[n] ?? 0) > 0);
  return <span>{names.length === 0 ? "no trials yet" : names.map((n) => `${counts[n]} ${n}`).join(", ")} of {most}</span>;
}

function Head({ name, study, place }: { name: string; study: Json; place: Place }): JSX.Element {
  const control = (verb: string) => () => call(`StudyService/${verb}Study`, { name, requestId: requestId() });
  const state = String(study["state"] ?? "");
  const best = study["bestValue"];
  const tab = (label: string, ...path: string[]) => (
    <a href={studyHref(name, ...path)} aria-current={(place.parts[3] ?? "") === (path[0] ?? "") ? "page" : undefined}>{label}</a>
  );
  return (
    <header class="head">
      <h1>{study["spec"].displayName || name.split("/")[3]} <State name={state} /></h1>
      {study["stateReason"] && <p class="why"><strong>{state === "ACTIVE" ? "Why nothing runs: " : ""}</strong>{study["stateReason"]}</p>}
      <p>
        <Counts study={study} />
        {best !== undefined && <>; best {study["spec"].metric.name} <strong>{short(Number(best))}</strong> in <a href={studyHref(name, "trials", String(study["bestTrial"]))}>trial {study["bestTrial"]}</a></>}
      </p>
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

function useModel(s: figures.Subject, coordinates: figures.Coordinate[], version: number): Map<string, { x: number[]; predictions: Json[] }> {
  const [models, setModels] = useState(new Map<string, { x: number[]; predictions: Json[] }>());
  const best = figures.bestRow(s);
  useEffect(() => {
    const stop = new AbortController();
    const asked = coordinates.filter((c) => c.ask && Number.isFinite(c.at(best)));
    if (best < 0 || asked.length === 0) return;
    const setting: Json = {};
    for (const c of figures.coordinates(s, 1e9)) if (Number.isFinite(c.at(best))) setting[c.name] = c.value(c.at(best));
    for (const p of s.study["spec"].space as Json[]) {
      const range = p["float"] ?? p["int"];
      if (range && Number(range["min"]) === Number(range["max"])) setting[p["name"]] = Number(range["min"]);
    }
    const per = Math.min(40, Math.floor(1000 / asked.length));
    const x = asked.map((c) => figures.places(c, per));
    const settings = asked.flatMap((c, k) => x[k]!.map((at) => ({ ...setting, [c.name]: c.value(at) })));
    call("StudyService/Predict", { name: s.study["name"], settings }, stop.signal).then(
      (answer) => {
        const all = (answer["predictions"] ?? []) as Json[];
        let from = 0;
        setModels(new Map(asked.map((c, k) => [c.name, { x: x[k]!, predictions: all.slice(from, (from += x[k]!.length)) }])));
      },
      () => undefined, // Algorithms without a model are drawn without one.
    );
    return () => stop.abort();
  }, [best, Math.floor(version / 8)]);
  return models;
}

function useSlopes(s: figures.Subject, version: number): figures.Slope[] {
  const [slopes, setSlopes] = useState<figures.Slope[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    const order = `metrics.${s.metric}${figures.maximize(s) ? " desc" : ""}`;
    call("StudyService/ListTrials", { parent: s.study["name"], pageSize: 60, states: ["COMPLETE"], orderBy: order }, stop.signal).then(
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
  }, [Math.floor(version / 8), s.metric]);
  return slopes;
}

function useCurves(s: figures.Subject, version: number): Json[] {
  const [trials, setTrials] = useState<Json[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    const value = figures.values(s), rows: number[] = [];
    for (let row = 0; row < s.table.rows; ++row) if (s.table.exists(row)) rows.push(row);
    const rank = (row: number) => (Number.isFinite(value[row]) ? (figures.maximize(s) ? -value[row]! : value[row]!) : Infinity);
    rows.sort((a, b) => rank(a) - rank(b));
    const chosen = rows.length <= 60 ? rows : [...rows.slice(0, 20), ...Array.from({ length: 40 }, (_, i) => rows[20 + Math.floor((i * (rows.length - 20)) / 40)]!)];
    const load = async () => {
      const got: Json[] = [];
      for (let i = 0; i < chosen.length; i += 6) {
        const part = await Promise.all(chosen.slice(i, i + 6).map((row) => call("StudyService/GetTrial", { name: `${s.study["name"]}/trials/${row + 1}`, withMeasurements: true }, stop.signal).catch(() => ({}))));
        if (stop.signal.aborted) return;
        got.push(...part.filter((t) => (t as Json)["measurements"]));
        // Studies without curves are not asked sixty times.
        if (i === 12 && got.length === 0) break;
      }
      setTrials(got);
    };
    void load();
    return () => stop.abort();
  }, [Math.floor(version / 16), s.metric]);
  return trials;
}

function Plots({ name, study, table, version, place }: { name: string; study: Json; table: Table; version: number; place: Place }): JSX.Element {
  const metrics = table.names().filter((n) => n.startsWith("metrics.")).map((n) => n.slice(8));
  const metric = place.query.get("metric") ?? String(study["spec"].metric.name);
  const s: figures.Subject = { study, table, metric };
  const coordinates = figures.coordinates(s, 8);
  const models = useModel(s, metric === study["spec"].metric.name ? coordinates : [], version);
  const slopes = useSlopes(s, version);
  const trials = useCurves(s, version);
  const importance = useLoaded(async (signal) => figures.importance(await call("StudyService/GetImportance", { name, metric }, signal)), [name, metric, Math.floor(version / 16)]);
  const made = useMemo(() => ({ history: figures.history(s), parallel: figures.parallel(s, coordinates), timeline: figures.timeline(s) }), [version, metric, study]);
  const slices = useMemo(() => coordinates.map((c) => figures.slice(s, c, models.get(c.name) ?? null, slopes)), [version, metric, models, slopes]);
  const curves = useMemo(() => figures.curves(s, trials), [trials, metric]);
  const open = (trial: number) => { location.hash = studyHref(name, "trials", trial); };
  return (
    <>
      {metrics.length > 1 && (
        <p><label>Metric <select value={metric} onChange={(e) => setQuery(place, "metric", e.currentTarget.value)}>{metrics.map((m) => <option key={m} value={m}>{m}</option>)}</select></label></p>
      )}
      <Section title="History"><Plot figure={made.history} height={340} onTrial={open} /></Section>
      <Section title="Settings and values"><Plot figure={made.parallel} height={340} onTrial={open} /></Section>
      <Section title="Over each parameter"><div class="grid">{slices.map((f: Figure) => <Plot key={f.title} figure={f} height={240} onTrial={open} />)}</div></Section>
      <Section title="Importance">{importance.value ? <Plot figure={importance.value} height={60 + 34 * Math.max(1, importance.value.panels[0]!.layers[0]!.x.length)} /> : <p>{importance.error?.message ?? "is computed …"}</p>}</Section>
      <Section title="Learning curves"><Plot figure={curves} height={300} onTrial={open} /></Section>
      <Section title="Who ran what, when"><Plot figure={made.timeline} height={Math.min(500, 120 + 24 * (made.timeline.panels[0]!.y.ticks?.length ?? 1))} onTrial={open} /></Section>
    </>
  );
}

const ROW = 30; // Pixels of a row.

function Trials({ name, study, table, version, place }: { name: string; study: Json; table: Table; version: number; place: Place }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const order = place.query.get("order") ?? "number", state = place.query.get("state") ?? "", find = place.query.get("find") ?? "";
  const metric = String(study["spec"].metric.name);
  const columns = ["number", "state", `metrics.${metric}`, ...table.names().filter((n) => n.startsWith("metrics.") && n !== `metrics.${metric}`),
                   ...table.names().filter((n) => n.startsWith("params.")).slice(0, 40), "seconds", "attempts", "worker", "designer", "origin"];
  const rows = useMemo(() => {
    const out: number[] = [];
    for (let row = 0; row < table.rows; ++row) {
      if (!table.exists(row) || (state !== "" && table.word("state", row) !== state)) continue;
      if (find !== "" && !columns.some((c) => cell(table, c, row).includes(find))) continue;
      out.push(row);
    }
    const column = order.replace(/^-/, ""), sign = order.startsWith("-") ? -1 : 1;
    if (table.isText(column)) out.sort((a, b) => sign * table.word(column, a).localeCompare(table.word(column, b)) || a - b);
    else {
      const value = table.number(column);
      out.sort((a, b) => (Number.isNaN(value[a]) ? 1 : 0) - (Number.isNaN(value[b]) ? 1 : 0) || sign * (value[a]! - value[b]!) || a - b);
    }
    return out;
  }, [version, order, state, find]);
  const height = 560, first = Math.max(0, Math.floor(top / ROW) - 10), last = Math.min(rows.length, first + Math.ceil(height / ROW) + 20);
  const states = ["COMPLETE", "PRUNED", "FAILED", "RUNNING", "PAUSED", "PENDING", "CANCELLED"];
  return (
    <>
      <p class="filters">
        <label>State <select value={state} onChange={(e) => setQuery(place, "state", e.currentTarget.value)}><option value="">all</option>{states.map((w) => <option key={w} value={w}>{w}</option>)}</select></label>
        <label>Find <input value={find} onChange={(e) => setQuery(place, "find", e.currentTarget.value)} /></label>
        <span role="status">{rows.length} {rows.length === 1 ? "trial" : "trials"}</span>
      </p>
      <div class="scroll virtual" ref={box} tabIndex={0} role="region" aria-label="Trials" onScroll={(e) => setTop(e.currentTarget.scrollTop)}>
        <table aria-rowcount={rows.length + 1}>
          <thead><tr>{columns.map((c) => (
            <th key={c} scope="col" aria-sort={order === c ? "ascending" : order === `-${c}` ? "descending" : "none"}>
              <button type="button" class="link" onClick={() => setQuery(place, "order", order === c ? `-${c}` : c)}>{c.replace(/^(params|metrics)\./, "")}</button>
            </th>))}</tr></thead>
          <tbody>
            {first > 0 && <tr style={{ height: first * ROW }} aria-hidden="true"><td colSpan={columns.length} /></tr>}
            {rows.slice(first, last).map((row, i) => (
              <tr key={row} style={{ height: ROW }} aria-rowindex={first + i + 2}>{columns.map((c) => (
                <td key={c} class={table.isText(c) ? "" : "number"}>{c === "number" ? <a href={studyHref(name, "trials", row + 1)}>{row + 1}</a> : c === "state" ? <State name={table.word(c, row)} /> : cell(table, c, row)}</td>))}</tr>))}
            {last < rows.length && <tr style={{ height: (rows.length - last) * ROW }} aria-hidden="true"><td colSpan={columns.length} /></tr>}
          </tbody>
        </table>
      </div>
    </>
  );
}

function cell(table: Table, column: string, row: number): string {
  if (table.isText(column)) return table.word(column, row);
  const value = table.number(column)[row]!;
  return Number.isNaN(value) ? "" : short(value);
}

export function StudyPage({ name, place, children }: { name: string; place: Place; children?: (study: Json) => JSX.Element }): JSX.Element {
  const { study, table, version, error, away } = useStudy(name);
  useEffect(() => { document.title = `${study?.["spec"].displayName || name.split("/")[3]} – Luthier`; });
  if (error !== null) return <Failure error={error} again={() => location.reload()} />;
  if (study === null) return away ? <Failure error={new CallError("unavailable", away)} /> : <p role="status">…</p>;
  return (
    <>
      {away && <p class="away" role="status">Connection lost, trying again: {away}</p>}
      <Head name={name} study={study} place={place} />
      {children ? children(study) : place.parts[3] === "trials" ? <Trials name={name} study={study} table={table} version={version} place={place} />
        : <Plots name={name} study={study} table={table} version={version} place={place} />}
      <p class="faint">Changed {ago(study["updateTime"])}.</p>
    </>
  );
}
