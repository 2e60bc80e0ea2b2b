// A form of a message's fields, made of their descriptors: every field that there is, with its comment as help. A field that is new
// in the API is here with it.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Json } from "./api";
import { helpOf, type Field, type Message, type Schema } from "./descriptors";

/** What is wrong at which field: "space[0].float.max". */
export interface Wrong { path: string; what: string }

interface Of { schema: Schema; wrong: Wrong[]; path: string }

/** Reads a value of any kind, as a default value: what reads as JSON is that, all else a text. */
function anyOf(words: string): unknown {
  try {
    return JSON.parse(words);
  } catch {
    return words;
  }
}
const wordsOf = (value: unknown): string => (typeof value === "object" ? JSON.stringify(value) : String(value));

const at = (path: string, name: string): string => (path === "" ? name : `${path}.${name}`);
const within = (wrong: Wrong[], path: string): Wrong[] => wrong.filter((w) => w.path === path || w.path.startsWith(`${path}.`) || w.path.startsWith(`${path}[`));

function Help({ comment }: { comment: string }): JSX.Element {
  const { first, rest } = helpOf(comment);
  return <small>{first}{rest !== "" && <span class="rest"> {rest}</span>}</small>;
}

function Said({ wrong, path }: { wrong: Wrong[]; path: string }): JSX.Element | null {
  const here = wrong.filter((w) => w.path === path);
  return here.length === 0 ? null : <span class="bad" role="alert">{here.map((w) => w.what).join("; ")}</span>;
}

/** One value: a number, a text, a word of an enum, true or false. `set` gets undefined for none. */
function Scalar({ schema, wrong, path, field, value, set }: Of & { field: Field; value: unknown; set: (value: unknown) => void }): JSX.Element {
  const bad = wrong.some((w) => w.path === path);
  const common = { "aria-label": path, "aria-invalid": bad };
  if (field.kind === "enum" || field.kind === "bool") {
    const values = field.kind === "bool" ? [{ name: "true", help: "" }, { name: "false", help: "" }] : schema.enums.get(field.type)!.values.filter((v) => !v.name.endsWith("UNSPECIFIED"));
    return (
      <select {...common} value={value === undefined ? "" : String(value)} onChange={(e) => { const v = e.currentTarget.value; set(v === "" ? undefined : field.kind === "bool" ? v === "true" : v); }}>
        <option value="" />{values.map((v) => <option key={v.name} value={v.name} title={v.help}>{v.name}</option>)}
      </select>
    );
  }
  const text = value === undefined ? "" : wordsOf(value);
  const typed = (words: string) => set(words === "" ? undefined : field.kind === "message" ? anyOf(words) : words);
  return <input {...common} inputMode={field.kind === "number" ? "decimal" : "text"} spellcheck={false} value={text} onInput={(e) => typed(e.currentTarget.value)} />;
}

/** Several values, one a line; of a map as key: value. */
function Lines({ schema, wrong, path, field, value, set }: Of & { field: Field; value: unknown; set: (value: unknown) => void }): JSX.Element {
  const entry = schema.messages.get(field.type), map = entry?.entry === true, any = map && entry.fields[1]!.kind === "message";
  const shown = value === undefined ? [] : map ? Object.entries(value as Json).map(([k, v]) => `${k}: ${wordsOf(v)}`) : (value as unknown[]).map(wordsOf);
  const [text, setText] = useState<string | null>(null); // What is being typed; null: nothing.
  const typed = (words: string) => {
    setText(words);
    const rows = words.split("\n").filter((row) => row !== "");
    set(rows.length === 0 ? undefined : !map ? rows : Object.fromEntries(rows.map((row) => {
      const colon = row.indexOf(":");
      const words = colon < 0 ? "" : row.slice(colon + 1).trim();
      return [colon < 0 ? row : row.slice(0, colon).trim(), any ? anyOf(words) : words];
    })));
  };
  return (
    <textarea aria-label={path} aria-invalid={within(wrong, path).length > 0} spellcheck={false} rows={Math.min(8, Math.max(2, shown.length))} placeholder={map ? "key: value" : "one a line"}
      value={text ?? shown.join("\n")} onInput={(e) => typed(e.currentTarget.value)} onBlur={() => setText(null)} />
  );
}

function Fold({ label, comment, bad, open, children }: { label: JSX.Element | string; comment: string; bad: boolean; open: boolean; children: () => JSX.Element }): JSX.Element {
  const [chosen, setChosen] = useState<boolean | null>(null); // By whoever looks; null: not yet.
  const shown = chosen ?? open;
  return (
    <details class="fold" open={shown} onToggle={(e) => { if (e.currentTarget.open !== shown) setChosen(e.currentTarget.open); }}>
      <summary><strong class={bad ? "bad" : ""}>{label}</strong> <Help comment={comment} /></summary>
      {shown && <div class="inner">{children()}</div>}
    </details>
  );
}

/** All fields of a message. `set` gets the whole of it. */
export function MessageForm({ schema, wrong, path, message, model, set }: Of & { message: Message; model: Json; set: (model: Json) => void }): JSX.Element {
  const change = (name: string, value: unknown, others: string[] = []) => {
    const next = { ...model };
    for (const other of others) delete next[other];
    if (value === undefined) delete next[name];
    else next[name] = value;
    set(next);
  };
  // What must be there or is there comes first; the rest below, unless nothing would be first. Fields stay where they are while
  // somebody writes in them.
  const [first] = useState(() => new Set(message.fields.filter((f) => f.choice !== "" || helpOf(f.help).required || model[f.name] !== undefined).map((f) => f.name)));
  const shown = message.fields.filter((f, i) => !f.help.startsWith("Output only.") && (f.choice === "" || message.fields.findIndex((g) => g.choice === f.choice) === i));
  const folds = path !== "" && first.size > 0;
  const rest = folds ? shown.filter((f) => !first.has(f.name)) : [];
  const one = (field: Field) =>
    field.choice !== "" ? <Choice key={field.choice} {...{ schema, wrong, path, message, model }} name={field.choice} change={change} />
      : <OneField key={field.name} {...{ schema, wrong, field }} path={at(path, field.name)} value={model[field.name]} set={(value) => change(field.name, value)} />;
  return (
    <>
      {shown.filter((f) => !rest.includes(f)).map(one)}
      {rest.length > 0 && <Fold label={<>more <span class="sr">of {path}</span></>} comment={`${rest.map((f) => f.name).join(", ")}`} bad={rest.some((f) => within(wrong, at(path, f.name)).length > 0)} open={false}>{() => <>{rest.map(one)}</>}</Fold>}
    </>
  );
}

/** One of several fields. */
function Choice({ schema, wrong, path, message, model, name, change }: Of & { message: Message; model: Json; name: string; change: (name: string, value: unknown, others: string[]) => void }): JSX.Element {
  const fields = message.fields.filter((f) => f.choice === name), chosen = fields.find((f) => model[f.name] !== undefined);
  const others = fields.map((f) => f.name);
  const choose = (wanted: string) => {
    const field = fields.find((f) => f.name === wanted);
    change(wanted, field === undefined ? undefined : field.kind === "message" ? {} : field.kind === "bool" ? false : "", others);
  };
  return (
    <div class="choice">
      <label class="field"><span>{name}</span>
        <select aria-label={at(path, name)} value={chosen?.name ?? ""} onChange={(e) => choose(e.currentTarget.value)}>
          <option value="" />{fields.map((f) => <option key={f.name} value={f.name}>{f.name}</option>)}
        </select>
        <Help comment={chosen?.help ?? message.choices.get(name) ?? ""} /><Said wrong={wrong} path={path} />
      </label>
      {chosen !== undefined && <OneField key={chosen.name} bare {...{ schema, wrong }} field={chosen} path={at(path, chosen.name)} value={model[chosen.name]} set={(value) => change(chosen.name, value, others)} />}
    </div>
  );
}

/** A field of any kind. `bare`: its name and its help are there already. */
function OneField({ schema, wrong, path, field, value, set, bare = false }: Of & { field: Field; value: unknown; set: (value: unknown) => void; bare?: boolean }): JSX.Element {
  const inner = field.kind === "message" ? schema.messages.get(field.type) : undefined;
  const bad = within(wrong, path).length > 0, { required } = helpOf(field.help);
  const of = { schema, wrong, path, field, value, set };
  if (inner !== undefined && !inner.entry && field.many) {
    const items = (value ?? []) as Json[];
    const put = (next: Json[]) => set(next.length === 0 ? undefined : next);
    return (
      <Fold label={items.length > 0 ? `${field.name} (${items.length})` : field.name} comment={field.help} bad={bad} open={required || items.length > 0}>{() => (
        <>
          <Said wrong={wrong} path={path} />
          {items.map((item, i) => (
            <fieldset key={i}>
              <legend>{String(item["name"] ?? `${field.name}[${i}]`)} <button type="button" class="link" onClick={() => put(items.filter((_, k) => k !== i))}>remove</button></legend>
              <MessageForm schema={schema} wrong={wrong} path={`${path}[${i}]`} message={inner} model={item} set={(next) => put(items.map((old, k) => (k === i ? next : old)))} />
              <Said wrong={wrong} path={`${path}[${i}]`} />
            </fieldset>
          ))}
          <button type="button" aria-label={`add to ${path}`} onClick={() => put([...items, {}])}>Add</button>
        </>
      )}</Fold>
    );
  }
  if (inner !== undefined && !inner.entry) {
    const form = () => (
      <>
        <Said wrong={wrong} path={path} />
        {inner.fields.length === 0 && !bare && <label class="field"><span>there</span><input type="checkbox" aria-label={path} checked={value !== undefined} onChange={(e) => set(e.currentTarget.checked ? {} : undefined)} /></label>}
        <MessageForm schema={schema} wrong={wrong} path={path} message={inner} model={(value ?? {}) as Json} set={(next) => set(Object.keys(next).length === 0 && !bare ? undefined : next)} />
      </>
    );
    return bare ? <div class="inner">{form()}</div> : <Fold label={field.name} comment={field.help} bad={bad} open={required || (value !== undefined && path.split(".").length < 3)}>{form}</Fold>;
  }
  return (
    <label class="field">
      {!bare && <span>{field.name}</span>}
      {field.many ? <Lines {...of} /> : <Scalar {...of} />}
      {!bare && <Help comment={field.help} />}<Said wrong={wrong} path={path} />
    </label>
  );
}
