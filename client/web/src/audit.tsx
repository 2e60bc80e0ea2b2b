// The audit, for people: what was done or refused, and about what.
import type { JSX } from "preact";
import { call, type Json } from "./api";
import { Failure, Section, setQuery, studyHref, time, useLoaded, type Place } from "./parts";
import { deedOf } from "./words";

/** What a call was about: a study, a trial, a token or a project, by name. Anything else as the audit has it. */
function About({ entry, tokens }: { entry: Json; tokens: Json[] }): JSX.Element {
  const object = String(entry["object"] ?? ""), [kind, project = "", of, id = "", , trial] = object.split("/");
  const within = <span class="faint"> in {project}</span>;
  if (kind === "projects" && of === "studies" && id !== "") {
    const name = `projects/${project}/studies/${id}`;
    return <>{trial !== undefined && <><a href={studyHref(name, "trials", trial)}>trial {trial}</a> of </>}<a href={studyHref(name)}>{id}</a>{within}</>;
  }
  if (kind === "projects" && of === "tokens") return <>token {id}{within}</>;
  if (kind === "projects" && of === undefined) return <>project {project}</>;
  const method = String(entry["method"] ?? ""), token = tokens.find((t) => t["id"] === object);
  if (/^AdminService\/\w+Token$/.test(method) && token !== undefined) return <>token {token["name"]}<span class="faint"> in {token["project"]}, {object}</span></>;
  if (/^AdminService\/\w+Project$/.test(method)) return <>project {object}</>;
  return <>{object}</>;
}

function Entry({ entry, tokens }: { entry: Json; tokens: Json[] }): JSX.Element {
  const method = String(entry["method"] ?? ""), outcome = String(entry["outcome"] ?? ""), deed = deedOf(method, outcome);
  return (
    <tr>
      <td class="one">{time(entry["time"])}</td><td>{entry["name"]}</td><td>{entry["peer"]}</td>
      <td>{deed || method}{deed && <small class="method"> {method}</small>}</td>
      <td><About entry={entry} tokens={tokens} /></td>
      <td>{outcome}{Number(entry["times"] ?? 1) > 1 && ` (${entry["times"]} times)`}</td>
    </tr>
  );
}

/** Whether a call was let through and changed nothing: to open this page is several of them. */
const isRead = (entry: Json): boolean => entry["outcome"] === "OK" && /\/(Get|List|Watch|Check|Predict|Explain|OpenPage)/.test(String(entry["method"] ?? ""));

export function Audit({ place, tokens }: { place: Place; tokens: Json[] }): JSX.Element {
  const kind = place.query.get("audit") ?? "", before = place.query.get("before") ?? "";
  const { value, error, again } = useLoaded((signal) => call("AdminService/ListAudit", { pageSize: 100, ...(kind ? { kind } : {}), ...(before ? { before } : {}) }, signal), [kind, before], before ? 0 : 5000);
  if (error !== null && value === null) return <Failure error={error} again={again} />;
  const entries = (value?.["entries"] ?? []) as Json[], shown = kind === "" && !place.query.has("reads") ? entries.filter((e) => !isRead(e)) : entries;
  return (
    <Section title="Audit">
      <p class="filters">
        <label>Entries <select value={kind} onChange={(e) => setQuery(place, "audit", e.currentTarget.value)}><option value="">all</option><option value="CHANGES">changes</option><option value="REFUSALS">refusals</option></select></label>
        {kind === "" && <label><input type="checkbox" checked={place.query.has("reads")} onChange={(e) => setQuery(place, "reads", e.currentTarget.checked ? "1" : "")} /> with what was only read{shown.length < entries.length && ` (${entries.length - shown.length} here)`}</label>}
        {before && <button type="button" onClick={() => setQuery(place, "before", "")}>Newest</button>}
        {entries.length === 100 && <button type="button" onClick={() => setQuery(place, "before", String(entries[99]!["number"]))}>Older</button>}
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Audit"><table class="audit">
        <thead><tr>{["time", "who", "from", "what", "about", "outcome"].map((h) => <th key={h} scope="col">{h}</th>)}</tr></thead>
        <tbody>{shown.map((e) => <Entry key={e["number"]} entry={e} tokens={tokens} />)}</tbody>
      </table></div>
    </Section>
  );
}
