/**
 * The API that instrument plugins import: functions that build results, and their source for hosts. `stdio` builds the
 * usual form; `data` builds a result from any other value.
 */

import type { Json, JsonObject } from "../values/json.ts";
import { HEFTY_VERSION, type InstrumentFailure, type InstrumentReturn } from "./instrument.ts";

export interface StdioResult {
  stdout?: string;
  stderr?: string;
  status?: InstrumentReturn["status"];
  error?: InstrumentFailure;
}

export const instrumentReturn = {
  stdio({ error, status, stderr = "", stdout = "" }: StdioResult): InstrumentReturn {
    const data: JsonObject = { stdout, stderr };
    return { status: status ?? (error === undefined ? "Success" : "Error"), data, ...(error && { error }) };
  },
  data: (data: Json): InstrumentReturn => ({ status: "Success", data }),
} as const;

/** The module that authors import; a host resolves the import to the source below if the plugin does not bundle it. */
export const INSTRUMENT_API = "@backplane/sdk/instruments";
/** Self-contained, because a plugin cannot import the gateway's modules; a test compares it with the original. */
export const INSTRUMENT_API_SOURCE = `
  export const HEFTY_VERSION = ${JSON.stringify(HEFTY_VERSION)};
  export const InstrumentResult = {
    stdio({ error, status, stderr = "", stdout = "" }) {
      return { status: status ?? (error === undefined ? "Success" : "Error"), data: { stdout, stderr }, ...(error && { error }) };
    },
    data: (data) => ({ status: "Success", data }),
  };
`;
