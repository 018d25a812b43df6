/** A client of `opencode serve`: requests in JSON, and a stream of events. */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";

export interface ServerEvent {
  type: string;
  properties: Record<string, unknown>;
}

export interface OpenCodeServer {
  /** Rejects with the status and text of the server's response if the server reports an error. */
  send<Result>(method: string, path: string, body?: object): Promise<Result>;
  /** Resolves once the server has accepted the subscription; the events follow until the server stops. */
  listen(onEvent: (event: ServerEvent) => void): Promise<void>;
  /** Rejects when the process or its stream of events ends. */
  ended: Promise<never>;
  stop(): void;
}

const OUTPUT_CHARS = 2_000;
/**
 * How long to wait for the exit of the process after its stream of events has ended: the exit is reported later, and
 * only the exit explains why.
 */
const EXIT_MS = 2_000;
const USER = "opencode";

export async function startServer(
  program: string,
  folder: string,
  env: Record<string, string>,
): Promise<OpenCodeServer> {
  const password = randomUUID();
  const child = spawn(program, ["serve", "--hostname", "127.0.0.1", "--port", "0", "--pure"], {
    cwd: folder,
    env: { ...env, OPENCODE_SERVER_PASSWORD: password },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { promise: ended, reject } = Promise.withResolvers<never>();
  // The caller may stop waiting before the process exits.
  ended.catch(() => {});
  const { promise: listening, resolve } = Promise.withResolvers<string>();
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk) => {
    stdout = (stdout + String(chunk)).slice(-OUTPUT_CHARS);
    const match = /listening on (http:\S+)/.exec(stdout);
    if (match !== null) resolve(match[1]!);
  });
  child.stderr.on("data", (chunk) => {
    stderr = (stderr + String(chunk)).slice(-OUTPUT_CHARS);
  });
  const end = (problem: string) => reject(new Error(`${problem}. ${stderr.trim()}`));
  child.once("error", (error) => end(`OpenCode cannot be started: ${error.message}`));
  child.once("exit", (code, signal) => end(`OpenCode exited: ${describeExit(code, signal)}`));
  const stop = () => void child.kill("SIGKILL");
  let base: string;
  try {
    base = await Promise.race([listening, ended]);
  } catch (error) {
    stop();
    throw error;
  }
  const authorization = `Basic ${Buffer.from(`${USER}:${password}`).toString("base64")}`;
  return {
    ended,
    stop,
    async send<Result>(method: string, path: string, body?: object) {
      const response = await fetch(base + path, {
        method,
        headers: { authorization, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (!response.ok)
        throw new Error(`OpenCode returned HTTP ${response.status} for ${path}: ${text.slice(0, 500)}`);
      return (text === "" ? null : JSON.parse(text)) as Result;
    },
    async listen(onEvent) {
      const response = await fetch(`${base}/event`, { headers: { authorization } });
      if (!response.ok || response.body === null)
        throw new Error(`OpenCode did not open its stream of events (HTTP ${response.status}).`);
      readEvents(response.body, onEvent).then(
        () => setTimeout(end, EXIT_MS, "The stream of events of OpenCode ended").unref(),
        (error: unknown) =>
          setTimeout(end, EXIT_MS, `The stream of events of OpenCode failed: ${String(error)}`).unref(),
      );
    },
  };
}

function describeExit(code: number | null, signal: string | null): string {
  // Without cgroups an allocation above the limit fails, and OpenCode aborts.
  if (signal === "SIGKILL" || signal === "SIGABRT")
    return "it was killed, perhaps because it exceeded its memory limit";
  return signal ?? `exit code ${code}`;
}

export async function readEvents(
  stream: AsyncIterable<Uint8Array>,
  onEvent: (event: ServerEvent) => void,
): Promise<void> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true });
    const frames = text.split("\n\n");
    text = frames.pop()!;
    for (const frame of frames) {
      const data = frame.split("\n").flatMap((line) => (line.startsWith("data:") ? line.slice(5) : []));
      if (data.length > 0) onEvent(JSON.parse(data.join("\n")) as ServerEvent);
    }
  }
}
