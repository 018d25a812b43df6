/**
 * The child that imports tool files one after another and reports each on a separate pipe: one line before
 * the import, so that the parent knows which file hangs, and one line after it. Lines are written
 * synchronously, so that a file that terminates the process cannot lose the lines before it.
 */
import { writeSync } from "node:fs";
import type { ToolFileDescription } from "@backplane/contract";
import { createToolFileLoader } from "./load-tool-file.ts";

export type ReportLine =
  | { begun: string }
  | { described: ToolFileDescription }
  | { failed: string; error: string };

export const REPORT_FD = 3;

export async function reportFiles(folder: string, files: readonly string[]): Promise<void> {
  const load = createToolFileLoader(folder);
  for (const file of files) {
    report({ begun: file });
    try {
      const { description } = await load(file);
      // An error thrown shortly after the import belongs to this file.
      await new Promise((resolve) => setImmediate(resolve));
      report({ described: description });
    } catch (error) {
      report({ failed: file, error: describeError(error) });
    }
  }
}

function report(line: ReportLine): void {
  const bytes = Buffer.from(`${JSON.stringify(line)}\n`);
  for (let sent = 0; sent < bytes.length; ) {
    try {
      sent += writeSync(REPORT_FD, bytes, sent);
    } catch (error) {
      // The pipe is full: retry, because the parent reads continuously.
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    }
  }
}

function describeError(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
