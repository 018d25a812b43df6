/**
 * Runs pip with the Python that plugins run with, so that versions and wheels are chosen for that Python (find-pip.ts).
 * pip reads no configuration, starts no program and reaches only the index.
 *
 * `--only-binary` does not stop pip from building a source archive that a package refers to by URL, which executes its
 * code. An audit hook therefore refuses every new process, and a dependency by URL is refused as soon as pip has read
 * it.
 *
 * pip also unpacks a source archive before it builds it, and old versions follow links of the archive out of the
 * folder. A source archive that may be used is therefore only downloaded here: pip stops before unpacking it and runs
 * again once a wheel has been built from it.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BackplaneError, type ProgressStep } from "@backplane/contract";
import type { Operation } from "@backplane/ports";
import { programDiskFault } from "../files/program-disk-fault.ts";
import { MAX_REGISTRY_BYTES, startRegistryProxy } from "../registries/registry-proxy.ts";
import { fetchPip, PIP_WHEEL, type PipWheel } from "./fetch-pip.ts";
import { type FoundPip, type FoundPython, findPip } from "./find-pip.ts";
import { findUpstreamProxy, MAX_LOG, runPythonTool } from "./run-python-tool.ts";

export interface PythonOptions {
  /** The folders in which plugins look up programs. */
  path: readonly string[];
  /** Such as `https://pypi.org/simple`. */
  index_url: string;
  /** Other origins that serve the files of the index. */
  file_origins?: readonly string[];
  env?: Readonly<Record<string, string | undefined>>;
  timeout_ms?: number;
  /** The limit for the bytes that the index sends to one run of pip. */
  max_bytes?: number;
  /** A folder for the pip that uv fetches if there is none. If absent, uv is not used. */
  tools_folder?: string;
  /** The wheel that uv fetches; default: one that is known to work. */
  pip_wheel?: PipWheel;
}

export interface Pip {
  readonly index_url: string;
  /** The origins that files may come from. */
  readonly origins: ReadonlySet<string>;
  /** Finds the Python of plugins and a pip for it. May fetch pip. */
  findPython(operation: Operation): Promise<FoundPython>;
  /** Throws `PipFailure`, or `request.cancelled` after an abort. */
  run(args: readonly string[], cwd: string, options: PipRunOptions): Promise<void>;
}

interface PipRunOptions {
  operation: Operation;
  step: ProgressStep;
  message: string;
  /** Source archives that pip may choose. pip then fails and reports the archive that it needs next. */
  sources?: AllowedSources | undefined;
}

export interface AllowedSources {
  /** Normalized names of packages. */
  names: readonly string[];
  /** The file for the archive, or null if it is not downloaded. */
  into: string | null;
  /** A folder with wheels that were built from other archives. */
  wheels: string;
}

/** A dependency by URL, with the names of the packages that lead to it. */
export interface DirectDependency {
  path: string[];
  url: string;
}

/** A source archive of the index that pip has chosen. */
export interface NeededSource {
  /** Normalized. */
  name: string;
  file: string;
  url: string;
  /** As the index announces it; null if it does not. */
  sha256: string | null;
}

export class PipFailure extends BackplaneError {
  /** The log of pip, truncated. */
  readonly log: string;
  readonly direct: DirectDependency | null;
  /** The URLs that pip tried to fetch from other hosts. */
  readonly refused: readonly string[];
  /** The source archive that is needed next. */
  readonly source: NeededSource | null;

  constructor(
    message: string,
    log = "",
    stopped: { direct?: DirectDependency; source?: NeededSource } = {},
    refused: readonly string[] = [],
  ) {
    super("plugin.install_failed", message);
    this.log = log;
    this.direct = stopped.direct ?? null;
    this.source = stopped.source ?? null;
    this.refused = refused;
  }
}

export const PYPI_URL = "https://pypi.org/simple";
/** The index of PyPI links to files on another host. */
const PYPI_FILES = "https://files.pythonhosted.org";
const TIMEOUT_MS = 300_000;
/** How long a change to the installed Python may go unnoticed. */
const FOUND_MS = 60_000;
const KEPT_ENV = /^(?:HOME|LANG|TMPDIR|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE)$/;

/**
 * Arguments: the folder of pip, a file for the reason why it was stopped, the names of packages whose source archives
 * it may choose and the file for such an archive (both as JSON), and the arguments of pip.
 */
const WRAPPER = `
import json, runpy, sys, tarfile

folder, stopped, names, into = sys.argv[1:5]
STARTS = ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn")

def refuse_programs(event, args):
    if event in STARTS:
        raise PermissionError("no program may be started while packages are resolved")

def refuse_archives(*args, **kwargs):
    raise PermissionError("no source archive may be unpacked while packages are resolved")

sys.addaudithook(refuse_programs)
tarfile.TarFile.__init__ = refuse_archives
sys.path.insert(0, folder)

def stop(reason, message):
    with open(stopped, "w") as file:
        json.dump(reason, file)
    raise SystemExit(message)

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
    stop({"direct": {"path": path, "url": url}}, "a dependency is given by URL")

InstallRequirement.__init__ = refuse_urls

names, into = frozenset(json.loads(names)), json.loads(into)
if names:
    import shutil
    from pip._internal.models.format_control import FormatControl
    from pip._internal.operations.prepare import RequirementPreparer, get_http_url

    plain_formats = FormatControl.get_allowed_formats
    plain_prepare = RequirementPreparer.prepare_linked_requirement

    def allow_sources(self, name):
        return frozenset(("binary", "source")) if name in names else plain_formats(self, name)

    def stop_at_source(self, req, *args, **kwargs):
        link = req.link
        if link.is_wheel:
            return plain_prepare(self, req, *args, **kwargs)
        if into is not None:
            found = get_http_url(link, self._download, None, req.hashes(trust_internet=True))
            shutil.copyfile(found.path, into)
        sha256 = link.hash if link.hash_name == "sha256" else None
        source = {"name": req.name, "file": link.filename, "url": link.url_without_fragment, "sha256": sha256}
        stop({"source": source}, "a source archive has to be built")

    FormatControl.get_allowed_formats = allow_sources
    RequirementPreparer.prepare_linked_requirement = stop_at_source

sys.argv = ["pip", *sys.argv[5:]]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
`;

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
  };
  let cached: { found: FoundPip; at: number } | undefined;
  const { tools_folder, pip_wheel: wheel = PIP_WHEEL } = options;
  const fetched = tools_folder === undefined ? null : join(tools_folder, `pip-${wheel.version}`);
  const findOrFetch = async (operation: Operation) => {
    if (cached !== undefined && performance.now() - cached.at < FOUND_MS) return cached.found;
    const fetch = async (uv: string, python: string) => {
      const folder = fetched!;
      const pip = { uv, python, wheel, folder, index, origins, env, clean_env: clean, timeout_ms };
      await fetchPip(pip, operation);
    };
    const search = { plugin_path: path, gateway_path: env.PATH ?? "", env: clean, fetched, fetch };
    const pip = await findPip(search);
    cached = { found: pip, at: performance.now() };
    return pip;
  };
  let previous: Promise<unknown> = Promise.resolve();
  // One at a time, because a fetched pip replaces the folder that another installation could have begun to use.
  const find = (operation: Operation): Promise<FoundPip> => {
    const finding = previous.then(() => findOrFetch(operation));
    previous = finding.catch(() => {});
    return finding;
  };
  return {
    index_url,
    origins,
    findPython: find,
    async run([command, ...args], cwd, { operation, step, message, sources }) {
      const { python, folder } = await find(operation);
      operation.report({ step, message });
      const proxy = await startRegistryProxy({
        origins,
        upstream: (origin) => findUpstreamProxy(env, origin),
        onReceived: (done) => operation.report({ step, message, done, unit: "bytes" }),
        max_bytes,
      });
      const temporary = await mkdtemp(join(tmpdir(), "backplane-pip-"));
      const [log, stopped] = [join(temporary, "log"), join(temporary, "stopped")];
      const all = [
        command!,
        ...COMMON_ARGS,
        ...(await buildIndexArguments(index, temporary)),
        "--proxy",
        proxy.url,
        "--log",
        log,
        ...(sources === undefined ? [] : ["--find-links", sources.wheels]),
        ...args,
      ];
      const allowed = [JSON.stringify(sources?.names ?? []), JSON.stringify(sources?.into ?? null)];
      try {
        const program = {
          file: python,
          args: ["-I", "-B", "-c", WRAPPER, folder, stopped, ...allowed, ...all],
        };
        // A pip that is killed leaves its temporary files behind, which are removed with this folder.
        const env = { ...pip_env, TMPDIR: temporary };
        const ended = await runPythonTool(program, { cwd, env, timeout_ms, signal: operation.signal });
        if (ended.code === 0) return;
        const disk_fault = programDiskFault("pip", ended.output);
        if (disk_fault !== null) throw disk_fault;
        const text = (await readFile(log, "utf8").catch(() => "")).slice(0, MAX_LOG);
        const stop_report = await readFile(stopped, "utf8").catch(() => "{}");
        const reason = ended.timed_out
          ? `pip did not finish within ${timeout_ms} ms.`
          : proxy.exceeded
            ? `The Python index sent more than ${max_bytes} bytes.`
            : `pip failed: ${messageOf(ended.output)}`;
        const parsed = JSON.parse(stop_report) as { direct?: DirectDependency; source?: NeededSource };
        throw new PipFailure(reason, text, parsed, proxy.refused);
      } finally {
        await proxy.close();
        await rm(temporary, { recursive: true, force: true });
      }
    },
  };
}

/** Every user of the machine can read the arguments of a process, so a login is passed in a file. */
async function buildIndexArguments(index: URL, folder: string): Promise<string[]> {
  if (index.username === "" && index.password === "") return ["--index-url", index.href];
  const file = join(folder, "index.txt");
  await writeFile(file, `--index-url ${index.href}\n`, { mode: 0o600 });
  return ["--requirement", file];
}

const COMMON_ARGS = [
  "--isolated",
  "--no-input",
  "--disable-pip-version-check",
  "--no-cache-dir",
  "--progress-bar=off",
  "--retries=2",
  "--timeout=30",
  "--only-binary=:all:",
];

/** The error lines of pip. */
function messageOf(output: string): string {
  const lines = output
    .split("\n")
    .filter((line) => /^(?:ERROR: |error: )/.test(line))
    .map((line) => line.replace(/^(?:ERROR|error): /, "").trim());
  const message = lines.slice(0, 3).join(" ");
  return message === "" ? "it reported no reason" : message.slice(0, 500);
}
