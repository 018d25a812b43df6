/**
 * Runs pip with the Python that plugins run with, so that versions and wheels are chosen for it. pip belongs to that Python
 * or is another one on the gateway's PATH. It reads no configuration, starts no program and reaches only the index.
 *
 * `--only-binary` does not stop pip from building a source archive that a package names by URL, which executes its code. An
 * audit hook therefore refuses every new process, and a dependency by URL is refused as soon as pip has read it.
 */
import { spawn } from "node:child_process";
import { access, constants, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { BackplaneError, type ProgressStep } from "@backplane/contract";
import type { Operation } from "@backplane/ports";
import { programDiskFault } from "../files/program-disk-fault.ts";
import { MAX_REGISTRY_BYTES, startRegistryProxy } from "../registries/registry-proxy.ts";

export interface PythonOptions {
  /** The folders in which plugins look up programs. */
  path: readonly string[];
  /** Such as `https://pypi.org/simple`. */
  index_url: string;
  /** Other origins that serve the files of the index. */
  file_origins?: readonly string[];
  env?: Readonly<Record<string, string | undefined>>;
  timeout_ms?: number;
  /** The limit for what the index sends to one run of pip. */
  max_bytes?: number;
}

export interface Pip {
  readonly index_url: string;
  /** The origins that files may come from. */
  readonly origins: ReadonlySet<string>;
  python(): Promise<FoundPython>;
  /** Throws `PipFailure`, or `request.cancelled` after an abort. */
  run(args: readonly string[], cwd: string, run: PipRun): Promise<void>;
}

interface PipRun {
  operation: Operation;
  step: ProgressStep;
  message: string;
}

export interface FoundPython {
  /** Such as `3.11`. */
  version: string;
}

/** A dependency by URL, with the names of the packages that lead to it. */
export interface DirectDependency {
  path: string[];
  url: string;
}

export class PipFailure extends BackplaneError {
  /** The log of pip, truncated. */
  readonly log: string;
  readonly direct: DirectDependency | null;
  /** The URLs that pip tried to fetch from other hosts. */
  readonly refused: readonly string[];

  constructor(
    message: string,
    log = "",
    direct: DirectDependency | null = null,
    refused: readonly string[] = [],
  ) {
    super("plugin.install_failed", message);
    this.log = log;
    this.direct = direct;
    this.refused = refused;
  }
}

export const PYPI_URL = "https://pypi.org/simple";
/** The index of PyPI links to files on another host. */
const PYPI_FILES = "https://files.pythonhosted.org";
const TIMEOUT_MS = 300_000;
/** How long a change of the installed Python may go unnoticed. */
const FOUND_MS = 60_000;
const MAX_LOG = 4 * 1024 * 1024;
/** The first version with `--report` and `--dry-run`. */
const OLDEST_PIP = [22, 2] as const;
/** Folders of the host that the sandbox shows. */
const VISIBLE = /^\/(?:usr|bin|sbin|lib|lib64)\//;
const KEPT_ENV = /^(?:HOME|LANG|TMPDIR|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE)$/;

/** Arguments: the folder of pip, a file for a refused dependency, and the arguments of pip. */
const WRAPPER = `
import json, runpy, sys

folder, refusal = sys.argv[1:3]
STARTS = ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn")

def refuse_programs(event, args):
    if event in STARTS:
        raise PermissionError("no program may be started while packages are resolved")

sys.addaudithook(refuse_programs)
sys.path.insert(0, folder)

from pip._internal.req.req_install import InstallRequirement

plain_init = InstallRequirement.__init__

def refuse_urls(self, req, comes_from, *args, **kwargs):
    plain_init(self, req, comes_from, *args, **kwargs)
    url = getattr(self.req, "url", None)
    if not url or comes_from is None or not self.match_markers():
        return
    path, at = [self.req.name], comes_from
    while at is not None and not isinstance(at, str):
        path.insert(0, at.name or "")
        at = at.comes_from
    with open(refusal, "w") as file:
        json.dump({"path": path, "url": url}, file)
    raise SystemExit("a dependency is given by URL")

InstallRequirement.__init__ = refuse_urls
sys.argv = ["pip", *sys.argv[3:]]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
`;

/** Prints the version of Python and, if it has pip, the version and the folder of pip. */
const DESCRIBE = `
import os, sys
print("%d.%d" % sys.version_info[:2])
try:
    import pip
    print(pip.__version__, os.path.dirname(os.path.dirname(pip.__file__)))
except ImportError:
    pass
`;

interface FoundPip extends FoundPython {
  python: string;
  /** The folder that contains the module. */
  folder: string;
}

export function createPip(options: PythonOptions): Pip {
  const { path, index_url, timeout_ms = TIMEOUT_MS, max_bytes = MAX_REGISTRY_BYTES } = options;
  const env = options.env ?? process.env;
  const index = new URL(index_url);
  const origins = new Set([
    index.origin,
    ...(index.hostname === "pypi.org" ? [PYPI_FILES] : []),
    ...(options.file_origins ?? []),
  ]);
  const clean: Record<string, string> = {};
  for (const [key, value] of Object.entries(env)) {
    if (value !== undefined && KEPT_ENV.test(key)) clean[key] = value;
  }
  // Without a PATH, pip cannot start git either. With the null device as its configuration file, it reads no other.
  const pip_env = {
    ...clean,
    PATH: "/nonexistent",
    PIP_CONFIG_FILE: "/dev/null",
    PYTHONDONTWRITEBYTECODE: "1",
  };
  let known: { found: FoundPip; at: number } | undefined;
  const find = async () => {
    if (known !== undefined && performance.now() - known.at < FOUND_MS) return known.found;
    const found = await findPip(path, env.PATH ?? "", clean);
    known = { found, at: performance.now() };
    return found;
  };
  return {
    index_url,
    origins,
    python: find,
    async run([command, ...args], cwd, { operation, step, message }) {
      const { python, folder } = await find();
      operation.report({ step, message });
      const proxy = await startRegistryProxy({
        origins,
        upstream: (origin) => upstreamOf(env, origin),
        received: (done) => operation.report({ step, message, done, unit: "bytes" }),
        max_bytes,
      });
      const temporary = await mkdtemp(join(tmpdir(), "backplane-pip-"));
      const [log, refusal] = [join(temporary, "log"), join(temporary, "refusal")];
      const all = [
        command!,
        ...COMMON,
        ...(await indexArguments(index, temporary)),
        "--proxy",
        proxy.url,
        "--log",
        log,
        ...args,
      ];
      try {
        const started = { file: python, args: ["-I", "-c", WRAPPER, folder, refusal, ...all] };
        // A pip that is killed leaves its temporary files behind, which are removed with this folder.
        const env = { ...pip_env, TMPDIR: temporary };
        const ended = await runProgram(started, { cwd, env, timeout_ms, signal: operation.signal });
        if (ended.code === 0) return;
        const full = programDiskFault("pip", ended.output);
        if (full !== null) throw full;
        const text = (await readFile(log, "utf8").catch(() => "")).slice(0, MAX_LOG);
        const direct = await readFile(refusal, "utf8").catch(() => null);
        const reason = ended.timed_out
          ? `pip did not finish within ${timeout_ms} ms.`
          : proxy.exceeded
            ? `The Python index sent more than ${max_bytes} bytes.`
            : `pip failed: ${messageOf(ended.output)}`;
        throw new PipFailure(
          reason,
          text,
          direct === null ? null : (JSON.parse(direct) as DirectDependency),
          proxy.refused,
        );
      } finally {
        await proxy.close();
        await rm(temporary, { recursive: true, force: true });
      }
    },
  };
}

/** Every user of the machine can read the arguments of a process, so a login is passed in a file. */
async function indexArguments(index: URL, folder: string): Promise<string[]> {
  if (index.username === "" && index.password === "") return ["--index-url", index.href];
  const file = join(folder, "index.txt");
  await writeFile(file, `--index-url ${index.href}\n`, { mode: 0o600 });
  return ["--requirement", file];
}

const COMMON = [
  "--isolated",
  "--no-input",
  "--disable-pip-version-check",
  "--no-cache-dir",
  "--progress-bar=off",
  "--retries=2",
  "--timeout=30",
  "--only-binary=:all:",
];

/** The first python3 for plugins, and a pip that can run on it. */
async function findPip(
  plugin_path: readonly string[],
  own_path: string,
  env: Record<string, string>,
): Promise<FoundPip> {
  const python = await firstProgram(plugin_path, "python3");
  if (python === null) {
    throw missing(
      `There is no python3 in ${plugin_path.join(", ")}, where plugins look up programs`,
      "apt-get install -y python3 python3-pip",
    );
  }
  const real = await realpath(python);
  if (!VISIBLE.test(real)) {
    throw missing(
      `${python} is a link to ${real}, which is not visible in the sandbox`,
      "Install Python below /usr: apt-get install -y python3 python3-pip",
    );
  }
  const { version, folder: own } = await describePython(python, env);
  if (own !== null) return { python, version, folder: own };
  // pip is pure Python, so one that belongs to another Python can run here.
  for (const place of own_path.split(delimiter)) {
    for (const name of ["python3", "python"]) {
      const other = place === "" ? null : await firstProgram([place], name);
      const folder = other === null ? null : (await describePython(other, env)).folder;
      if (folder !== null) return { python, version, folder };
    }
  }
  throw missing(
    `There is no pip of version ${OLDEST_PIP.join(".")} or later for ${python}`,
    "apt-get install -y python3-pip",
  );
}

/** `folder` is null if this Python has no pip or one that is too old. */
async function describePython(
  file: string,
  env: Record<string, string>,
): Promise<{ version: string; folder: string | null }> {
  const { code, output } = await runProgram(
    { file, args: ["-I", "-c", DESCRIBE] },
    { cwd: "/", env, timeout_ms: 30_000 },
  );
  const [version = "", pip = ""] = code === 0 ? output.split("\n") : [];
  const [, major, minor, folder = null] = /^(\d+)\.(\d+)\S* (.+)$/.exec(pip) ?? [];
  const newer = Number(major) - OLDEST_PIP[0] || Number(minor) - OLDEST_PIP[1];
  return { version, folder: newer < 0 ? null : folder };
}

async function firstProgram(folders: readonly string[], name: string): Promise<string | null> {
  for (const folder of folders) {
    const file = join(folder, name);
    const found = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return file;
  }
  return null;
}

function missing(problem: string, fix: string): BackplaneError {
  return new BackplaneError("plugin.install_failed", `${problem}. Python packages need python3 and pip.`, {
    fix,
  });
}

interface EndedProgram {
  code: number | null;
  /** Standard output, then standard error. */
  output: string;
  timed_out: boolean;
}

async function runProgram(
  { file, args }: { file: string; args: readonly string[] },
  options: { cwd: string; env: Record<string, string>; timeout_ms: number; signal?: AbortSignal },
): Promise<EndedProgram> {
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
      // The process has already ended.
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

/** The operator's own proxy, as curl and pip read it from the environment. */
function upstreamOf(env: PythonOptions["env"] & object, origin: string): URL | null {
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

/** The error lines of pip. */
function messageOf(output: string): string {
  const lines = output
    .split("\n")
    .filter((line) => /^(?:ERROR: |error: )/.test(line))
    .map((line) => line.replace(/^(?:ERROR|error): /, "").trim());
  const message = lines.slice(0, 3).join(" ");
  return message === "" ? "it gave no reason" : message.slice(0, 500);
}
