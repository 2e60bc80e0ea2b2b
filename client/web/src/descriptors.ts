// The fields of the API's messages, with their comments, as the coordinator has them: api.binpb is a FileDescriptorSet with
// the places of its sources, made where luthierd is built. Nothing here knows a message by name.
import { fields, packed, textOf } from "./wire";

export type Kind = "number" | "bool" | "text" | "enum" | "message";

export interface Field {
  name: string;   // As in study files: max_trials.
  json: string;   // As in calls: maxTrials.
  kind: Kind;
  type: string;   // Full name of the message or enum.
  many: boolean;
  choice: string; // The choice that it is one of; "": none.
  help: string;   // All of its comment.
}

export interface Message { fields: Field[]; choices: Map<string, string>; entry: boolean }
export interface Enum { values: { name: string; help: string }[] }
export interface Schema { messages: Map<string, Message>; enums: Map<string, Enum> }

type Comments = Map<string, string>;

const clean = (comment: string): string => comment.trim().replace(/\s*\n\s*/g, " ");

function commentsOf(info: Uint8Array): Comments {
  const out: Comments = new Map();
  fields(info, (field, location) => {
    if (field !== 1) return;
    let path = "", comment = "";
    fields(location, (part, value) => {
      if (part === 1) path = packed(value).join(".");
      if (part === 3 || part === 4) comment ||= clean(textOf(value));
    });
    if (comment !== "") out.set(path, comment);
  });
  return out;
}

// By the number of the field's type in descriptor.proto.
const KINDS: Record<number, Kind> = { 8: "bool", 9: "text", 11: "message", 12: "text", 14: "enum" };

function fieldOf(bytes: Uint8Array, help: string): { field: Field; oneof: number } {
  const field: Field = { name: "", json: "", kind: "number", type: "", many: false, choice: "", help };
  let oneof = -1, optional = false;
  fields(bytes, (part, value, number) => {
    if (part === 1) field.name = textOf(value);
    if (part === 4) field.many = number === 3n;
    if (part === 5) field.kind = KINDS[Number(number)] ?? "number";
    if (part === 6) field.type = textOf(value).replace(/^\./, "");
    if (part === 9) oneof = Number(number);
    if (part === 10) field.json = textOf(value);
    if (part === 17) optional = number === 1n;
  });
  return { field, oneof: optional ? -1 : oneof };
}

function addEnum(bytes: Uint8Array, path: string, prefix: string, comments: Comments, schema: Schema): void {
  const made: Enum = { values: [] };
  let name = "";
  fields(bytes, (part, value) => {
    if (part === 1) name = textOf(value);
    if (part !== 2) return;
    const help = comments.get(`${path}.2.${made.values.length}`) ?? "";
    fields(value, (inner, text) => { if (inner === 1) made.values.push({ name: textOf(text), help }); });
  });
  schema.enums.set(`${prefix}.${name}`, made);
}

function addMessage(bytes: Uint8Array, path: string, prefix: string, comments: Comments, schema: Schema): void {
  let name = "";
  fields(bytes, (part, value) => { if (part === 1) name = textOf(value); });
  const full = `${prefix}.${name}`, made: Message = { fields: [], choices: new Map(), entry: false };
  const choices: string[] = [], oneofs: number[] = [];
  let messages = 0, enums = 0;
  fields(bytes, (part, value) => {
    if (part === 2) {
      const { field, oneof } = fieldOf(value, comments.get(`${path}.2.${made.fields.length}`) ?? "");
      made.fields.push(field);
      oneofs.push(oneof);
    }
    if (part === 3) addMessage(value, `${path}.3.${messages++}`, full, comments, schema);
    if (part === 4) addEnum(value, `${path}.4.${enums++}`, full, comments, schema);
    if (part === 7) fields(value, (option, _, number) => { if (option === 7) made.entry = number === 1n; });
    if (part === 8) fields(value, (inner, text) => { if (inner === 1) choices.push(textOf(text)); });
  });
  made.fields.forEach((field, i) => {
    const oneof = oneofs[i]!;
    if (oneof < 0) return;
    field.choice = choices[oneof]!;
    made.choices.set(field.choice, comments.get(`${path}.8.${oneof}`) ?? "");
  });
  schema.messages.set(full, made);
}

/** Reads a FileDescriptorSet. */
export function readSchema(set: Uint8Array): Schema {
  const schema: Schema = { messages: new Map(), enums: new Map() };
  fields(set, (part, file) => {
    if (part !== 1) return;
    let prefix = "", comments: Comments = new Map();
    fields(file, (field, value) => {
      if (field === 2) prefix = textOf(value);
      if (field === 9) comments = commentsOf(value);
    });
    let messages = 0, enums = 0;
    fields(file, (field, value) => {
      if (field === 4) addMessage(value, `4.${messages++}`, prefix, comments, schema);
      if (field === 5) addEnum(value, `5.${enums++}`, prefix, comments, schema);
    });
  });
  return schema;
}

let known: Promise<Schema> | null = null;

/** Returns the schema of the coordinator that serves this page. */
export function loadSchema(): Promise<Schema> {
  known ??= fetch("api.binpb").then(async (response) => {
    if (!response.ok) throw new Error(`api.binpb: HTTP ${response.status}`);
    return readSchema(new Uint8Array(await response.arrayBuffer()));
  });
  known.catch(() => { known = null; });
  return known;
}

/** Returns the first sentence of a comment, without what says whether the field must be there, and the rest. */
export function helpOf(comment: string): { required: boolean; first: string; rest: string } {
  const text = comment.replace(/^(Required|Optional)(, [^.]*)?\.\s*/, "");
  const end = /[^.]\.(?=\s+[A-Z`])/.exec(text);
  const at = end === null ? text.length : end.index + 2;
  return { required: /^Required\b/.test(comment), first: text.slice(0, at), rest: text.slice(at).trim() };
}
