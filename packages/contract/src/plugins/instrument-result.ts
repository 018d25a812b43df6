/** The answer of an instrument, made. `stdio` is the usual form; any other value goes as `data`. */

import type { Json, JsonObject } from "../values/json.ts";
import { HEFTY_VERSION, type InstrumentFailure, type InstrumentResult as Result } from "./instrument.ts";

export interface StdioResult {
  stdout?: string;
  stderr?: string;
  status?: Result["status"];
  error?: InstrumentFailure;
}

export const instrumentResult = {
  stdio({ error, status, stderr = "", stdout = "" }: StdioResult): Result {
    const data: JsonObject = { stdout, stderr };
    return { status: status ?? (error === undefined ? "Success" : "Error"), data, ...(error && { error }) };
  },
  data: (data: Json): Result => ({ status: "Success", data }),
} as const;

/** What an author imports; a host answers it with the source below where it is not bundled. */
export const INSTRUMENT_API = "@backplane/sdk/instruments";
/** Self-contained, since a module in its own graph sees nothing of ours; a test holds it against the real one. */
export const INSTRUMENT_API_SOURCE = `
export const HEFTY_VERSION = ${JSON.stringify(HEFTY_VERSION)};
export const InstrumentResult = {
  stdio({ error, status, stderr = "", stdout = "" }) {
    return { status: status ?? (error === undefined ? "Success" : "Error"), data: { stdout, stderr }, ...(error && { error }) };
  },
  data: (data) => ({ status: "Success", data }),
};
`;
