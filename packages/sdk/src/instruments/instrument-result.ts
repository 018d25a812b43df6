/** The answer of an instrument. `stdio` is the usual form; any other value goes as `data`. */
import type { InstrumentFailure, InstrumentResult as Result, Json, JsonObject } from "@backplane/contract";

export interface StdioResult {
  stdout?: string;
  stderr?: string;
  status?: Result["status"];
  error?: InstrumentFailure;
}

export type InstrumentResult = Result;
export const InstrumentResult = {
  stdio({ error, status, stderr = "", stdout = "" }: StdioResult): Result {
    const data: JsonObject = { stdout, stderr };
    return { status: status ?? (error === undefined ? "Success" : "Error"), data, ...(error && { error }) };
  },
  data: (data: Json): Result => ({ status: "Success", data }),
} as const;
