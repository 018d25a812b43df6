/**
 * Starts `up` in a background process and waits for one line: readiness, or the error. The line uses a separate pipe,
 * because it contains a sign-in link and stdout goes to a log file.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { BackplaneError, type ErrorCode, isErrorCode } from "@backplane/contract";
import type { CommandContext } from "../../context/context.ts";

const READY_FD = 3;

export interface UpOptions {
  port?: number;
  host?: string;
  detach?: boolean;
  open?: boolean;
  insecureListen?: boolean;
  strategy?: string;
  logLevel?: string;
  readyFd?: number;
}

/** Describes a gateway that is ready. The background process sends it as one line of JSON. */
export interface ReadyReport {
  url: string;
  login_url: string;
  token_file: string;
  home: string;
  pid: number;
  version: string;
}

export async function detach(context: CommandContext, options: UpOptions): Promise<ReadyReport> {
  const { io, home } = context;
  const log_file = join(home, "gateway.log");
  const log = openSync(log_file, "a", 0o600);
  const child = spawn(io.entry.node, [...io.entry.args, ...upArguments(home, options)], {
    cwd: io.cwd,
    env: io.env,
    detached: true,
    stdio: ["ignore", log, log, "pipe"],
  });
  closeSync(log);
  const failed = new Promise<never>((_resolve, reject) => child.once("error", reject));
  const line = await Promise.race([readFirstLine(child.stdio[READY_FD] as Readable), failed]);
  child.unref();
  if (line === "") {
    throw new BackplaneError("internal", "The gateway exited before it was ready.", {
      fix: `Read ${log_file}.`,
    });
  }
  return toReadyReport(JSON.parse(line) as ReadyReport | { error: ReportedError });
}

interface ReportedError {
  code: string;
  message: string;
  fix?: string;
  details?: Record<string, unknown>;
}

function toReadyReport(document: ReadyReport | { error: ReportedError }): ReadyReport {
  if (!("error" in document)) return document;
  const { code, message, fix, details } = document.error;
  const error_code: ErrorCode = isErrorCode(code) ? code : "internal";
  throw new BackplaneError(error_code, message, {
    ...(fix === undefined ? {} : { fix }),
    ...(details === undefined ? {} : { details }),
  });
}

function upArguments(home: string, options: UpOptions): string[] {
  const args = ["up", "--home", home, "--ready-fd", String(READY_FD)];
  if (options.port !== undefined) args.push("--port", String(options.port));
  if (options.host !== undefined) args.push("--host", options.host);
  if (options.insecureListen === true) args.push("--insecure-listen");
  if (options.strategy !== undefined) args.push("--strategy", options.strategy);
  if (options.logLevel !== undefined) args.push("--log-level", options.logLevel);
  return args;
}

/** Empty if the pipe was closed without a line. */
async function readFirstLine(stream: Readable): Promise<string> {
  let text = "";
  for await (const chunk of stream) {
    text += String(chunk);
    if (text.includes("\n")) break;
  }
  return text.split("\n", 1)[0] ?? "";
}
