/**
 * Finds the gateway's URL and the credential. Flags override the environment, which overrides the files in the home.
 * The state file is read here because importing @backplane/gateway would load the whole server.
 */
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { BackplaneError } from "@backplane/contract";

export const DEFAULT_URL = "http://127.0.0.1:7420";

export interface LocateFlags {
  url?: string;
  token?: string;
  home?: string;
}

export interface Daemon {
  url: string;
  pid: number;
  version?: string;
}

type Env = Record<string, string | undefined>;

export function locateHome(flags: LocateFlags, env: Env, cwd: string): string {
  const specified = flags.home ?? nonEmpty(env.BACKPLANE_HOME);
  if (specified !== undefined) return resolve(cwd, specified);
  return join(
    nonEmpty(env.XDG_DATA_HOME) ?? join(nonEmpty(env.HOME) ?? homedir(), ".local", "share"),
    "backplane",
  );
}

export function locateUrl(flags: LocateFlags, env: Env, home: string): string {
  const url =
    flags.url ?? nonEmpty(env.BACKPLANE_URL) ?? readRunningUrl(home) ?? defaultUrl(flags, env, home);
  if (!isHttpUrl(url)) {
    throw new BackplaneError("cli.usage", `${url} is not an HTTP or HTTPS URL.`, {
      fix: `--url ${isHttpUrl(`http://${url}`) && !url.includes("://") ? `http://${url}` : DEFAULT_URL}`,
    });
  }
  return url.replace(/\/+$/, "");
}

function isHttpUrl(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

/**
 * Rejects a state file whose process has exited: another program may listen on that port by now and would receive the
 * admin token of this home.
 */
function readRunningUrl(home: string): string | undefined {
  const daemon = readDaemonFile(home);
  if (daemon !== null && !isAlive(daemon.pid)) {
    throw new BackplaneError(
      "daemon.unreachable",
      `The gateway of ${home} (pid ${daemon.pid}, ${daemon.url}) exited without being stopped.`,
    );
  }
  return daemon?.url;
}

/** Requires an explicit credential: the token of this home is valid only for its own gateway, which is not running. */
function defaultUrl(flags: LocateFlags, env: Env, home: string): string {
  if ((flags.token ?? nonEmpty(env.BACKPLANE_TOKEN)) !== undefined) return DEFAULT_URL;
  throw new BackplaneError("daemon.unreachable", `No gateway is running for ${home}.`);
}

export function locateToken(flags: LocateFlags, env: Env, home: string): string {
  const token = flags.token ?? nonEmpty(env.BACKPLANE_TOKEN);
  if (token !== undefined) return token;
  const file = tokenFile(home);
  try {
    return readFileSync(file, "utf8").trim();
  } catch (cause) {
    const is_missing = (cause as NodeJS.ErrnoException).code === "ENOENT";
    throw new BackplaneError(
      "auth.missing",
      is_missing ? `${file} does not exist.` : `${file} cannot be read.`,
      {
        fix: is_missing
          ? "Start the gateway once with `backplane up`, or pass --token, BACKPLANE_TOKEN or --home."
          : "Run as the user that started the gateway, or pass --token or BACKPLANE_TOKEN.",
      },
    );
  }
}

/** Where `locateToken` finds the token, for messages. */
export function tokenSource(flags: LocateFlags, env: Env, home: string): string {
  if (flags.token !== undefined) return "--token";
  return nonEmpty(env.BACKPLANE_TOKEN) === undefined ? tokenFile(home) : "BACKPLANE_TOKEN";
}

function tokenFile(home: string): string {
  return join(home, "admin.token");
}

/** Reads the state file that the gateway wrote when it became ready. Its process may have exited since. */
export function readDaemonFile(home: string): Daemon | null {
  try {
    const state = JSON.parse(readFileSync(join(home, "gateway.json"), "utf8")) as Partial<Daemon>;
    if (typeof state.url !== "string" || typeof state.pid !== "number") return null;
    return {
      url: state.url,
      pid: state.pid,
      ...(state.version === undefined ? {} : { version: state.version }),
    };
  } catch {
    return null;
  }
}

/** A zombie is treated as dead: in a container without an init process, nothing reaps it. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !isZombie(pid);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function isZombie(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).startsWith("Z");
  } catch {
    return false;
  }
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === undefined || value === "" ? undefined : value;
}
