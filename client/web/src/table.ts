// GetTrialTable in Protocol Buffers' binary form: in JSON a table of a hundred thousand rows is 20 MB of base64, which a
// browser decodes in a tenth of a second, and this in none. All other calls are in JSON (api.ts).
import { send } from "./api";
import { fields, textOf } from "./wire";

export interface Column {
  name: string;
  numbers?: Float64Array;
  words?: { indexes: Uint32Array; texts: string[] };
}

export interface TablePage {
  columns: Column[];
  rows: number;
  seq: string;
  next: string;
}

// Arrays of numbers begin at multiples of their size.
const whole = (bytes: Uint8Array): ArrayBuffer => bytes.slice().buffer;

function wordsOf(message: Uint8Array): { indexes: Uint32Array; texts: string[] } {
  const out = { indexes: new Uint32Array(0), texts: [] as string[] };
  fields(message, (field, bytes) => {
    if (field === 1) out.indexes = new Uint32Array(whole(bytes));
    if (field === 2) out.texts.push(textOf(bytes));
  });
  return out;
}

/** Reads a GetTrialTableResponse. */
export function readTable(message: Uint8Array): TablePage {
  const page: TablePage = { columns: [], rows: 0, seq: "0", next: "" };
  fields(message, (field, bytes, number) => {
    if (field === 2) page.rows = Number(number);
    if (field === 3) page.seq = String(number);
    if (field === 4) page.next = textOf(bytes);
    if (field !== 1) return;
    const column: Column = { name: "" };
    fields(bytes, (part, value) => {
      if (part === 1) column.name = textOf(value);
      if (part === 2) column.numbers = new Float64Array(whole(value));
      if (part === 3) column.words = wordsOf(value);
    });
    page.columns.push(column);
  });
  return page;
}

/** Writes a GetTrialTableRequest. */
export function tableRequest(name: string, columns: string[], afterSeq: string, token: string): Uint8Array<ArrayBuffer> {
  const out: number[] = [];
  const varint = (value: bigint) => {
    for (; value > 127n; value >>= 7n) out.push(Number(value & 127n) | 128);
    out.push(Number(value));
  };
  const text = (field: number, value: string) => {
    if (value === "") return;
    const bytes = new TextEncoder().encode(value);
    out.push((field << 3) | 2);
    varint(BigInt(bytes.length));
    bytes.forEach((byte) => out.push(byte));
  };
  text(1, name);
  columns.forEach((column) => text(2, column));
  if (afterSeq !== "0") {
    out.push(3 << 3);
    varint(BigInt(afterSeq));
  }
  text(4, token);
  return new Uint8Array(out);
}

/** Asks for a page of a study's table: rows that changed after an event. */
export async function tablePage(name: string, columns: string[], afterSeq: string, token: string, signal?: AbortSignal): Promise<TablePage> {
  const response = await send("StudyService/GetTrialTable", "application/proto", tableRequest(name, columns, afterSeq, token), signal);
  return readTable(new Uint8Array(await response.arrayBuffer()));
}
