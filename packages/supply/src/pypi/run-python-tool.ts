/** Starts the programs that resolve Python packages: python3, and uv where there is no pip. */
import { spawn } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";

/** How much of the output and of the log of a program is read. */
export const MAX_LOG = 4 * 1024 * 1024;

export interface ProgramResult {
  code: number | null;
  /** Standard output, then standard error. */
  output: string;
  timed_out: boolean;
}

export async function runPythonTool(
  { file, args }: { file: string; args: readonly string[] },
  options: { cwd: string; env: Record<string, string>; timeout_ms: number; signal?: AbortSignal },
): Promise<ProgramResult> {
  const { cwd, env, timeout_ms, signal } = options;
  if (signal?.aborted) throw new BackplaneError("request.cancelled");
  const child = spawn(file, args, { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  const texts = [child.stdout, child.stderr].map((stream) => {
    const text = { value: "" };
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      if (text.value.length < MAX_LOG) text.value += chunk;
    });
    return text;
  });
  let timed_out = false;
  const kill = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // The process has already exited.
    }
  };
  const timer = setTimeout(() => {
    timed_out = true;
    kill();
  }, timeout_ms);
  signal?.addEventListener("abort", kill);
  const code = await new Promise<number | null>((resolve) => {
    child.once("error", () => resolve(null));
    child.once("close", resolve);
  });
  clearTimeout(timer);
  signal?.removeEventListener("abort", kill);
  if (signal?.aborted) throw new BackplaneError("request.cancelled");
  return { code, output: texts.map(({ value }) => value).join("\n"), timed_out };
}

export async function findExecutable(folders: readonly string[], name: string): Promise<string | null> {
  for (const folder of folders) {
    const file = join(folder, name);
    const is_executable = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (is_executable) return file;
  }
  return null;
}

/** The operator's own proxy, as curl, pip and uv read it from the environment. */
export function findUpstreamProxy(
  env: Readonly<Record<string, string | undefined>>,
  origin: string,
): URL | null {
  const { hostname, protocol } = new URL(origin);
  const read = (name: string) => env[name.toLowerCase()] ?? env[name];
  const direct = (read("NO_PROXY") ?? "").split(",").map((name) => name.trim().replace(/^\*?\./, ""));
  if (
    direct.some((name) => name !== "" && (name === "*" || hostname === name || hostname.endsWith(`.${name}`)))
  )
    return null;
  const proxy_url = read(protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY") ?? "";
  return URL.canParse(proxy_url) ? new URL(proxy_url) : null;
}
