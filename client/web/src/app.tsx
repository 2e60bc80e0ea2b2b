// The page of a coordinator.
import { render, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Admin } from "./admin";
import { call, takeToken, type Json } from "./api";
import { Compare } from "./compare";
import { Create } from "./create";
import { short } from "./figure";
import { mainMetric } from "./metrics";
import { ago, AskToken, Failure, href, setQuery, State, studyHref, useLoaded, usePlace, useTitle, type Place } from "./parts";
import { StudyPage } from "./study";
import { TrialPage } from "./trial";

const THEMES = ["auto", "light", "dark"];

function Theme(): JSX.Element {
  const [theme, setTheme] = useState(() => localStorage.getItem("luthier-theme") ?? "auto");
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    localStorage.setItem("luthier-theme", theme);
    dispatchEvent(new Event("luthier-theme"));
  }, [theme]);
  useEffect(() => {
    const on = () => dispatchEvent(new Event("luthier-theme"));
    const query = matchMedia("(prefers-color-scheme: dark)");
    query.addEventListener("change", on);
    return () => query.removeEventListener("change", on);
  }, []);
  return <label class="theme">Theme <select value={theme} onChange={(e) => setTheme(e.currentTarget.value)}>{THEMES.map((t) => <option key={t}>{t}</option>)}</select></label>;
}

async function allStudies(signal: AbortSignal): Promise<Json[]> {
  const out: Json[] = [];
  let token = "";
  do {
    const page = await call("StudyService/ListStudies", { pageSize: 1000, pageToken: token }, signal);
    out.push(...((page["studies"] ?? []) as Json[]));
    token = String(page["nextPageToken"] ?? "");
  } while (token !== "");
  return out;
}

const MOST_ROWS = 500;
const MOST_COMPARED = 8;
const PARTS: [string, string][] = [["complete", "complete"], ["pruned", "stopped early"], ["failed", "failed"], ["running", "running"]];

const ENDED = ["complete", "pruned", "failed", "cancelled"];

function Bar({ study }: { study: Json }): JSX.Element {
  const counts = study["trials"] ?? {};
  const most = Math.max(1, Number(study["spec"].budget?.maxTrials ?? 100));
  const words = PARTS.filter(([n]) => Number(counts[n] ?? 0) > 0).map(([n, w]) => `${counts[n]} ${w}`).join(", ");
  return (
    <span class="bar" role="img" aria-label={words || "no trials yet"} title={words}>
      {PARTS.map(([n]) => <span key={n} class={n} style={{ width: `${(100 * Math.min(most, Number(counts[n] ?? 0))) / most}%` }} />)}
    </span>
  );
}

function Studies({ place }: { place: Place }): JSX.Element {
  const { value, error, again } = useLoaded(allStudies, [], 2000);
  const [chosen, setChosen] = useState<string[]>([]);
  useTitle("Studies");
  const choose = (name: string, on: boolean) => setChosen(on ? [...chosen, name] : chosen.filter((c) => c !== name));
  const find = place.query.get("find") ?? "", state = place.query.get("state") ?? "";
  if (error !== null && (value === null || !error.passing)) return <Failure error={error} again={again} />;
  if (value === null) return <p role="status">…</p>;
  const shown = value.filter((s) => (state === "" || s["state"] === state) && (find === "" || `${s["name"]} ${s["spec"].displayName ?? ""} ${Object.values(s["spec"].labels ?? {}).join(" ")}`.includes(find)));
  return (
    <>
      <h1>Studies</h1>
      {error && <p class="away" role="status">Connection lost, trying again: {error.message}</p>}
      <p class="filters">
        <label>State <select value={state} onChange={(e) => setQuery(place, "state", e.currentTarget.value)}><option value="">all</option>{["ACTIVE", "PAUSED", "STOPPED", "CANCELLED", "COMPLETED"].map((s) => <option key={s}>{s}</option>)}</select></label>
        <label>Find <input value={find} onInput={(e) => setQuery(place, "find", e.currentTarget.value)} /></label>
        <span role="status">{shown.length} {shown.length === 1 ? "study" : "studies"}</span>
        <a class="button" href={href("new")}>New study</a>
        {chosen.length > 1 && <a class="button" href={`${href("compare")}?studies=${chosen.map((c) => encodeURIComponent(c)).join(",")}`}>Compare {chosen.length}</a>}
      </p>
      {value.length === 0 ? <p>There is no study yet. <a href={href("new")}>State one here</a>, or <code>luthier study create -f study.yaml</code></p> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Studies"><table>
          <thead><tr>{["", "study", "trials", "best", "state", "changed"].map((h) => (h ? <th key={h} scope="col">{h}</th> : <td key={h} />))}</tr></thead>
          <tbody>{shown.slice(0, MOST_ROWS).map((s) => (
            <tr key={s["name"]}>
              <td><input type="checkbox" aria-label={`compare ${s["name"].split("/")[3]}`} checked={chosen.includes(s["name"])} disabled={chosen.length >= MOST_COMPARED && !chosen.includes(s["name"])} onChange={(e) => choose(s["name"], e.currentTarget.checked)} /></td>
              <td><a href={studyHref(s["name"])}><bdi>{s["spec"].displayName || s["name"].split("/")[3]}</bdi></a>{s["spec"].displayName && <span class="faint"> {s["name"].split("/")[3]}</span>}</td>
              <td><Bar study={s} /> <span class="one">{ENDED.reduce((sum, n) => sum + Number(s["trials"]?.[n] ?? 0), 0)} of {s["spec"].budget?.maxTrials ?? 100}</span>{ENDED.slice(1).map((n) => Number(s["trials"]?.[n] ?? 0) > 0 && <span key={n} class="faint one"> {s["trials"][n]} {n === "pruned" ? "stopped early" : n}</span>)}</td>
              <td class="number">{s["bestValue"] === undefined ? "" : <><span class="faint">{mainMetric(s)}</span> {short(Number(s["bestValue"]))}</>}</td>
              <td><State name={String(s["state"] ?? "")} />{s["stateReason"] && <span class="faint"> {s["stateReason"]}</span>}</td>
              <td class="one">{ago(s["updateTime"])}</td>
            </tr>))}</tbody>
        </table>{shown.length > MOST_ROWS && <p>{shown.length - MOST_ROWS} more: search for them.</p>}</div>
      )}
    </>
  );
}

function Workers(): JSX.Element {
  const { value, error, again } = useLoaded(async (signal) => ({ workers: (await call("StudyService/ListWorkers", { pageSize: 1000 }, signal))["workers"] ?? [], studies: await allStudies(signal) }), [], 2000);
  useTitle("Workers");
  if (error !== null && (value === null || !error.passing)) return <Failure error={error} again={again} />;
  if (value === null) return <p role="status">…</p>;
  const active = value.studies.filter((s) => s["state"] === "ACTIVE"), waiting = active.filter((s) => s["stateReason"]);
  const workers = value.workers as Json[];
  return (
    <>
      <h1>Workers</h1>
      {error && <p class="away" role="status">Connection lost, trying again: {error.message}</p>}
      <h2>Why nothing runs</h2>
      {waiting.length === 0 ? <p>{active.length === 0 ? "No study is active." : "Each active study has trials under way, or a worker that asks for them, or is asked by its users themselves."}</p> : <ul>{waiting.map((s) => <li key={s["name"]}><a href={studyHref(s["name"])}>{s["name"].split("/")[3]}</a>: {s["stateReason"]}</li>)}</ul>}
      <h2>Workers that asked since the coordinator started</h2>
      {workers.length === 0 ? <p>None has asked. Start one: <code>luthier-worker --server {location.hostname}:7790</code>, where 7790 is the port of <code>luthierd --listen</code>. A page of <code>luthier ui --db</code> has no workers: end it, then <code>luthier run</code> goes on with the study.</p> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Workers"><table>
          <thead><tr>{["worker", "last heard of", "holds", "granted", "complete", "failed", "expired", "gets no trials of"].map((h) => <th key={h} scope="col">{h}</th>)}</tr></thead>
          <tbody>{workers.map((w) => (
            <tr key={w["name"]}><td>{w["name"]}</td><td>{ago(w["lastSeen"])}</td>{["leases", "granted", "completed", "failed", "expired"].map((f) => <td key={f} class="number">{w[f] ?? 0}</td>)}
              <td>{((w["rests"] ?? []) as Json[]).map((r) => `${r["study"].split("/")[3]}: ${r["failure"]}`).join("; ")}</td></tr>))}</tbody>
        </table></div>
      )}
    </>
  );
}

/** Who the coordinator takes this page for; and a way to be somebody else. */
function Who({ info }: { info: Json | null }): JSX.Element | null {
  const [asks, setAsks] = useState(false);
  if (info === null || info["open"]) return null;
  return (
    <span class="who">
      {info["caller"]} ({((info["roles"] ?? []) as string[]).join(", ")}){" "}
      <button type="button" class="link" aria-expanded={asks} onClick={() => setAsks(!asks)}>other token</button>
      {asks && <AskToken />}
    </span>
  );
}

function App(): JSX.Element {
  const place = usePlace();
  const [kind = "studies", project, id, part, trial] = place.parts;
  const main = useLoaded(async (signal) => call("WorkerService/GetServerInfo", {}, signal), []);
  useEffect(() => { document.querySelector("main")?.scrollTo(0, 0); }, [place.parts.join("/")]);
  const isAdmin = main.value !== null && !main.value["open"] && ((main.value["roles"] ?? []) as string[]).includes("admin");
  const name = project && id ? `projects/${project}/studies/${id}` : "";
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the content</a>
      <div class="top" role="banner">
        <a class="brand" href={href("studies")}>Luthier</a>
        <nav aria-label="Pages"><a href={href("studies")} aria-current={kind === "studies" ? "page" : undefined}>Studies</a><a href={href("workers")} aria-current={kind === "workers" ? "page" : undefined}>Workers</a>{isAdmin && <a href={href("admin")} aria-current={kind === "admin" ? "page" : undefined}>Admin</a>}</nav>
        <span class="faint">{main.value ? `luthierd ${main.value["version"]}` : ""}</span>
        <Who info={main.value} />
        <Theme />
      </div>
      <main id="main" tabIndex={-1}>
        {kind === "workers" ? <Workers /> : kind === "admin" ? <Admin place={place} /> : kind === "new" ? <Create /> : kind === "compare" ? <Compare place={place} /> : name === "" ? <Studies place={place} />
          : <StudyPage key={name} name={name} place={place} {...(part === "trials" && trial ? { children: (study: Json) => <TrialPage key={trial} study={study} number={Number(trial)} /> } : {})} />}
      </main>
    </>
  );
}

takeToken();
render(<App />, document.getElementById("app")!);
