/** `plugin`: packages in and out of the gateway. A folder is packed here and uploaded, so it need not be local to it. */
import { accessSync, constants, createReadStream, type Stats, statSync } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { PassThrough } from "node:stream";
import {
  BackplaneError,
  type Binding,
  DEFAULT_CLASS,
  EXECUTION_CLASSES,
  type ExecutionClass,
  type Package,
  type PluginExport,
} from "@backplane/contract";
import type { Command } from "commander";
import type { Act } from "../act.ts";
import { assertConfirmable, confirm } from "../ask.ts";
import { bindExports } from "../bind-exports.ts";
import { type BindingOptions, bindingFlags } from "../binding-flags.ts";
import type { Context } from "../context.ts";
import { findPackage } from "../find-package.ts";
import { fields, table } from "../output.ts";
import { type PageOptions, pageFlags, showPage } from "../page.ts";

const EXAMPLES = `
Examples:
  backplane plugin install ./my-plugin --bind --class worker
  backplane plugin install acme-devkit-0.1.0.tgz
  backplane plugin pack ./my-plugin -o acme-devkit-0.1.0.tgz
`;

export function addPluginCommands(program: Command, act: Act): void {
  const plugin = program
    .command("plugin")
    .description("Install plugins and look at them.")
    .addHelpText("after", EXAMPLES);
  bindingFlags(plugin.command("install <source>"))
    .description("Install a folder or a packed .tgz file.")
    .option("--bind", "make all its exports usable at once, with the flags above")
    .option("--org-wide", "bind for the whole organisation instead of one project")
    .addHelpText("after", EXAMPLES)
    .action(act(install));
  pageFlags(plugin.command("list").description("List installed packages.")).action(act(list));
  plugin
    .command("info <package>")
    .description("Show a package: ID, or publisher/name[@version].")
    .action(act(info));
  plugin
    .command("remove <package>")
    .description("Remove a package that no binding uses.")
    .action(act(remove));
  plugin
    .command("pack <folder>")
    .description("Pack a folder into an archive.")
    .option("-o, --out <file>", "where to write it (default: FOLDER.tgz here)")
    .action(act(pack));
}

interface InstallOptions extends BindingOptions {
  bind?: boolean;
  orgWide?: boolean;
}

async function install(context: Context, options: InstallOptions, source: string): Promise<undefined> {
  const { out } = context;
  const wasted = [
    "config",
    "secret",
    "class",
    "approval",
    "timeout",
    "domains",
    "capabilities",
    "percent",
    "orgWide",
  ] as const;
  const named = wasted.find((flag) => options[flag] !== undefined);
  if (options.bind !== true && named !== undefined) {
    throw new BackplaneError(
      "cli.usage",
      `--${named === "orgWide" ? "org-wide" : named} belongs to a binding, and --bind is not given.`,
      {
        fix: `backplane plugin install ${source} --bind with the same flags`,
      },
    );
  }
  const installed = await upload(context, source);
  const bindings = options.bind === true ? await bindExports(context, installed, options) : [];
  out.data({ package: installed, bindings }, () =>
    [
      `Installed ${installed.package_id}@${installed.version} (${installed.digest})`,
      ...bindings.map((binding) => `Bound ${binding.export_id} as ${binding.binding_id} (${binding.status})`),
    ].join("\n"),
  );
  for (const binding of bindings) {
    for (const slot of binding.unbound_slots)
      out.note(`Not active yet: backplane binding set ${binding.binding_id} --secret ${slot}=NAME`);
  }
  if (!out.quiet) await sayNext(context, installed, options.bind === true ? bindings : null);
  return undefined;
}

/**
 * The command that comes next, ready to be copied. What must run isolated is refused where there is no sandbox:
 * better said now than at the first call.
 */
async function sayNext(context: Context, installed: Package, bindings: Binding[] | null): Promise<void> {
  const { out } = context;
  const { exports } = installed.manifest;
  const isolated = exports.filter((each) => {
    const bound = bindings?.find((binding) => binding.export_id === each.id);
    return (bound?.policy.class ?? ownClass(each)) === "isolated";
  });
  const refused =
    isolated.length > 0 && !(await context.client().status()).sandbox.available
      ? isolated.map((each) => each.id)
      : [];
  if (refused.length > 0)
    out.note(`This gateway has no sandbox, so it refuses what must run isolated: ${refused.join(", ")}`);
  if (bindings === null) {
    const first = exports[0]!;
    const slots = first.permissions.secret_slots.map((slot) => ` --secret ${slot}=NAME`).join("");
    const config = first.config_schema === undefined ? "" : configHint(installed, first.config_schema);
    const lower = refused.includes(first.id) ? " --class worker" : "";
    const trust = lower === "" ? "Next" : "Next, if you trust the plugin";
    const name = `${installed.package_id}@${installed.version}`;
    out.note(`${trust}: backplane binding create ${name} ${first.id}${config}${slots}${lower}`);
    return;
  }
  for (const binding of bindings) {
    if (refused.includes(binding.export_id))
      out.note(`If you trust the plugin: backplane binding set ${binding.binding_id} --class worker`);
  }
}

/** As the gateway decides it: a package can ask for more isolation, never for less. */
function ownClass({ kind, execution_class }: PluginExport): ExecutionClass {
  const rank = (name: ExecutionClass) => EXECUTION_CLASSES.indexOf(name);
  const usual = DEFAULT_CLASS[kind];
  return execution_class !== undefined && rank(execution_class) > rank(usual) ? execution_class : usual;
}

/** Only where the binding would be refused without it. */
function configHint(installed: Package, path: string): string {
  const required = (installed.schemas[path] as { required?: unknown } | undefined)?.required;
  if (!Array.isArray(required) || required.length === 0) return "";
  const fields = required.map((name) => `${JSON.stringify(name)}: …`).join(", ");
  return ` --config '{${fields}}'`;
}

async function upload(context: Context, source: string): Promise<Package> {
  const path = resolve(context.io.cwd, source);
  const client = context.client();
  if (!statOf(path, source).isDirectory()) return client.packages.installArchive(createReadStream(path));
  const { packFolder } = await import("@backplane/supply");
  const archive = new PassThrough();
  let failure: unknown;
  // A pack that fails ends the upload too, and its own error is the one worth showing.
  const packed = packFolder(path, archive).catch((error: unknown) => {
    failure ??= error;
    archive.destroy(error as Error);
  });
  try {
    const installed = await client.packages.installArchive(archive);
    await packed;
    return installed;
  } catch (error) {
    failure ??= error;
    archive.destroy();
    throw failure;
  }
}

async function list(context: Context, options: PageOptions): Promise<undefined> {
  const page = await context.client().packages.list(options);
  showPage(context, page, ["PACKAGE", "VERSION", "EXPORTS", "ORIGIN", "INSTALLED", "ID"], (item) => [
    item.package_id,
    item.version,
    item.manifest.exports.map((each) => each.id).join(","),
    item.origin,
    item.installed_at,
    item.id,
  ]);
  return undefined;
}

async function info(context: Context, _options: object, name: string): Promise<undefined> {
  const { out } = context;
  const found = await findPackage(context, name);
  const { id, digest, size_bytes, origin, installed_at, installed_by, manifest } = found;
  out.data(found, () =>
    [
      fields({
        package: `${found.package_id}@${found.version}`,
        id,
        name: manifest.name,
        description: manifest.description,
        license: manifest.license,
        source: manifest.source,
        protocol: manifest.runtime.protocol,
        entrypoint: manifest.runtime.entrypoint.join(" "),
        digest,
        size_bytes,
        origin,
        installed: `${installed_at} by ${installed_by}`,
      }),
      "",
      table(
        out,
        ["EXPORT", "KIND", "NETWORK", "FILES", "SECRETS", "DESCRIPTION"],
        manifest.exports.map((each) => [
          each.id,
          each.kind,
          each.permissions.network,
          each.permissions.filesystem,
          each.permissions.secret_slots.join(",") || "-",
          each.description,
        ]),
      ),
    ].join("\n"),
  );
  return undefined;
}

async function remove(context: Context, _options: object, name: string): Promise<undefined> {
  assertConfirmable(context.io, context.flags);
  const found = await findPackage(context, name);
  const label = `${found.package_id}@${found.version}`;
  await confirm(context.io, context.flags, `Remove ${label}?`);
  await context.client().packages.remove(found.id);
  context.out.data(
    { removed: found.id, package_id: found.package_id, version: found.version },
    () => `Removed ${label}`,
  );
  return undefined;
}

async function pack(context: Context, options: { out?: string }, folder: string): Promise<undefined> {
  const { cwd } = context.io;
  const path = resolve(cwd, folder);
  if (!statOf(path, folder).isDirectory()) throw unreadable(folder, "is not a folder");
  const file = resolve(cwd, options.out ?? `${basename(path)}.tgz`);
  const { packFolder } = await import("@backplane/supply");
  const target = await createNew(file);
  try {
    const packed = await packFolder(path, target.createWriteStream());
    context.out.data(
      { file, digest: packed.digest, size_bytes: packed.size_bytes, files: packed.files },
      () => `Packed ${packed.files.length} files into ${file} (${packed.digest})`,
    );
  } catch (error) {
    await rm(file, { force: true });
    throw error;
  }
  context.out.note(`Next: backplane plugin install ${file} --bind`);
  return undefined;
}

/** An archive that exists is never overwritten: someone may have published its digest. */
async function createNew(file: string): Promise<FileHandle> {
  try {
    return await open(file, "wx");
  } catch (error) {
    const exists = (error as NodeJS.ErrnoException).code === "EEXIST";
    const why = exists ? "exists already" : "cannot be written";
    throw new BackplaneError("cli.usage", `${file} ${why}.`, { fix: "Name another file with -o FILE." });
  }
}

function statOf(path: string, shown: string): Stats {
  try {
    accessSync(path, constants.R_OK);
    return statSync(path);
  } catch {
    throw unreadable(shown, "does not exist or cannot be read");
  }
}

function unreadable(shown: string, why: string): BackplaneError {
  return new BackplaneError("cli.usage", `${shown} ${why}.`, {
    fix: "Name a folder that holds vai-plugin.toml, or a packed .tgz file.",
  });
}
