// Reads Protocol Buffers' binary form.

const decoder = new TextDecoder();
export const textOf = (bytes: Uint8Array): string => decoder.decode(bytes);

/** Calls `on` with the number and the value of each field of a message: bytes, or a whole number. */
export function fields(message: Uint8Array, on: (field: number, bytes: Uint8Array, whole: bigint) => void): void {
  const at = { place: 0 };
  const none = new Uint8Array(0);
  while (at.place < message.length) {
    const key = Number(varint(message, at)), kind = key & 7;
    if (kind === 0) on(key >> 3, none, varint(message, at));
    else if (kind === 2) {
      const size = Number(varint(message, at));
      on(key >> 3, message.subarray(at.place, at.place + size), 0n);
      at.place += size;
    } else if (kind === 1 || kind === 5) at.place += kind === 1 ? 8 : 4; // Numbers of fixed size: nothing here has any yet.
    else throw new Error(`a message has a field of kind ${kind}`);
  }
}

function varint(message: Uint8Array, at: { place: number }): bigint {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = message[at.place++];
    if (byte === undefined) throw new Error("a message ends in the middle of a number");
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

/** Returns the numbers of a packed field. */
export function packed(bytes: Uint8Array): number[] {
  const at = { place: 0 }, out: number[] = [];
  while (at.place < bytes.length) out.push(Number(varint(bytes, at)));
  return out;
}
