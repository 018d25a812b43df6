/** A real gateway in this process on its own home, and CLI commands against it. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Binding } from "@backplane/contract";
import { loadConfig, startGateway } from "@backplane/gateway";
import { runProgram } from "../../src/index.ts";
import { type CapturedIo, type CaptureOptions, captureIo } from "./capture-io.ts";

export const PLUGIN = fileURLToPath(new URL("./plugin", import.meta.url));

interface CommandResult {
  exit: number;
  out: string;
  err: string;
}

export interface TestGateway {
  home: string;
  url: string;
  /** Runs a command to completion. */
  backplane(argv: string[], options?: CaptureOptions): Promise<CommandResult>;
  /** Starts a command whose streams and signals the test controls. */
  begin(argv: string[], options?: CaptureOptions): { io: CapturedIo; ended: Promise<CommandResult> };
  /** Returns the JSON document of a successful command. */
  json<T>(argv: string[], options?: CaptureOptions): Promise<T>;
  close(): Promise<void>;
}

/** `settings` is the text of backplane.toml. */
export async function startTestGateway(settings = ""): Promise<TestGateway> {
  const home = mkdtempSync(join(tmpdir(), "backplane-cli-"));
  writeFileSync(join(home, "backplane.toml"), settings, { mode: 0o600 });
  const gateway = await startGateway(loadConfig({ home, env: {}, flags: { port: 0, log_level: "silent" } }));
  const begin: TestGateway["begin"] = (argv, options = {}) => {
    const io = captureIo({ ...options, env: { BACKPLANE_HOME: home, ...options.env } });
    return { io, ended: runProgram(argv, io).then((exit) => ({ exit, out: io.out(), err: io.err() })) };
  };
  const backplane: TestGateway["backplane"] = (argv, options) => begin(argv, options).ended;
  return {
    home,
    url: gateway.url,
    begin,
    backplane,
    async json<T>(argv: string[], options?: CaptureOptions) {
      const { exit, out, err } = await backplane([...argv, "--json"], options);
      if (exit !== 0) throw new Error(`backplane ${argv.join(" ")} exited with code ${exit}: ${err}`);
      return JSON.parse(out) as T;
    },
    async close() {
      await gateway.stop("test over");
      rmSync(home, { recursive: true, force: true });
    },
  };
}

/** Installs the plugin in the folder `plugin` and binds all its exports; `secretive` has no secret yet. */
export async function installKit(gateway: TestGateway): Promise<Record<string, Binding>> {
  const { bindings } = await gateway.json<{ bindings: Binding[] }>([
    "plugin",
    "install",
    PLUGIN,
    "--bind",
    "--class",
    "worker",
  ]);
  return Object.fromEntries(bindings.map((binding) => [binding.export_id, binding]));
}

/** Writes the plugin of `PLUGIN` with this version into a folder below `root`. */
export function writeKitVersion(root: string, version: string): string {
  const folder = join(root, version);
  cpSync(PLUGIN, folder, { recursive: true });
  // The plugin also states its version in its handshake.
  for (const name of ["vai-plugin.toml", "plugin.mjs"]) {
    const file = join(folder, name);
    writeFileSync(
      file,
      readFileSync(file, "utf8").replace(/\bversion( =|:) "0\.1\.0"/, `version$1 "${version}"`),
    );
  }
  return folder;
}
