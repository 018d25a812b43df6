/**
 * Creates a package from an MCP server in a container image, which people start with `docker run -i --rm IMAGE`. The
 * package contains the merged files of the layers, which become the root of the sandbox, and the start command of the
 * image.
 */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { BackplaneError, type Manifest } from "@backplane/contract";
import { ManifestSchema } from "@backplane/contract/schema";
import type { Operation } from "@backplane/ports";
import { unsafeImage } from "../../archive/unsafe.ts";
import { readSpool } from "../../container-images/apply-layer.ts";
import { IMAGE_FILE, type ImageFile } from "../../container-images/image-file.ts";
import { formatImageReference, parseImageReference } from "../../container-images/image-reference.ts";
import { type ImageTree, partsOf } from "../../container-images/image-tree.ts";
import { type PulledImage, pullImage } from "../../container-images/pull-image.ts";
import { writeRoot } from "../../container-images/root-files.ts";
import { createCredentialCheck } from "../../credentials/scan-credentials.ts";
import type { HostPlatform } from "../../manifest/host-platform.ts";
import type { RegistryClient } from "../../oci/registry-client.ts";
import { findFiles, mapConcurrently, readTreeFile } from "../../tree/read-tree.ts";
import { listTree, type TreeListing } from "../../tree/tree-listing.ts";
import type { ImageServerSource } from "../parts/source-content.ts";
import { toPackageId } from "./server-manifest.ts";

/** The search path of images that set none. */
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** Files of /etc that the sandbox replaces; they must exist, because the root is read-only. */
const REPLACED_FILES = ["passwd", "group", "hosts"];
/** Each top-level entry of an image is mounted at every start of a process. */
const MAX_TOP_ENTRIES = 256;
/** The sandbox sets these itself. */
const SANDBOX_VARIABLES = ["HOME", "TMPDIR"];

/** Creates the package in the folder `tree`, which does not exist yet. `note` receives messages for the operator. */
export async function buildImageServer(
  registry: RegistryClient,
  host: HostPlatform,
  source: ImageServerSource,
  tree: string,
  operation: Operation,
  note: (text: string) => void,
): Promise<TreeListing> {
  const reference = parseImageReference(source.reference);
  const layer_folder = `${tree}-layers`;
  await mkdir(layer_folder);
  try {
    const image = await pullImage(registry, reference, host, layer_folder, operation);
    try {
      await refuseAuthorCredentials(image);
      noteUser(image, note);
      prepareRoot(image.tree, image.config.workdir);
      const image_file: ImageFile = {
        manifest: buildManifest(image, source, host),
        image: {
          reference: formatImageReference(reference),
          digest: image.digest,
          layers: image.manifest.layers.map(({ digest }) => digest),
        },
      };
      await mkdir(tree);
      await writeRoot(image.tree, image.spool.handle, tree);
      await writeFile(join(tree, IMAGE_FILE), `${JSON.stringify(image_file, null, 2)}\n`);
    } finally {
      await image.spool.handle.close();
    }
    operation.report({
      step: "verify",
      message: `Computing the digest of ${formatImageReference(reference)}`,
    });
    const { files } = await findFiles(tree);
    return listTree(await mapConcurrently(files, (path) => readTreeFile(tree, path)));
  } finally {
    await rm(layer_folder, { recursive: true, force: true });
  }
}

/** The files of the sandbox belong to its own user, so a program that expects the user of the image can fail. */
function noteUser({ reference, config: { user } }: PulledImage, note: (text: string) => void): void {
  if (user === null) return;
  note(
    `${formatImageReference(reference)} sets the user ${user}, which is not used: the server runs as the same ` +
      "unprivileged user as every other server. If it fails to start, look for a check of its user or for a " +
      "folder that only that user may write to.",
  );
}

/**
 * Folders that, like the working folder, contain files of an image's author. Other files usually come from public base
 * images.
 */
const AUTHOR_FOLDERS = ["app", "home", "root", "srv"];
const DEPENDENCY_FOLDER = /(?:^|\/)(?:node_modules|site-packages|dist-packages)\//;

/** Refuses credentials in files and variables that the author of the image has added. */
async function refuseAuthorCredentials({ tree, spool, config }: PulledImage): Promise<void> {
  const credentials = createCredentialCheck();
  for (const [name, value] of Object.entries(config.env))
    credentials.scan(`ENV ${name}`).push(Buffer.from(value));
  const workdir = partsOf(config.workdir).join("/");
  const folders = [...AUTHOR_FOLDERS, ...(workdir === "" ? [] : [workdir])].map((folder) => `${folder}/`);
  for (const { path, node } of tree.entries()) {
    if (
      node.kind !== "file" ||
      !folders.some((folder) => path.startsWith(folder)) ||
      DEPENDENCY_FOLDER.test(path)
    )
      continue;
    const scan = credentials.scan(path);
    for await (const chunk of readSpool(spool.handle, node.content)) scan.push(chunk);
  }
  credentials.assertNone("container image");
}

/** Derives the package id and the version from the reference alone. */
export function describeImage(text: string): { package_id: string; version: string } {
  const { repository, tag } = parseImageReference(text);
  return { package_id: packageIdOfImage(repository), version: tag ?? "latest" };
}

function packageIdOfImage(repository: string): string {
  const parts = repository.split("/");
  return toPackageId(parts.at(-2) ?? "image", parts.at(-1)!);
}

function buildManifest(image: PulledImage, source: ImageServerSource, host: HostPlatform): Manifest {
  const { reference, config, digest } = image;
  const reference_text = formatImageReference(reference);
  if (config.entrypoint.length === 0 && source.with_args) {
    throw new BackplaneError(
      "package.invalid",
      `${reference_text} has no entrypoint, so the first argument would be its program.`,
      {
        fix: "Install it without arguments, or use an image whose entrypoint starts the server.",
      },
    );
  }
  // As with docker, arguments replace the command of the image, and are appended to its entrypoint.
  const command = [...config.entrypoint, ...(source.with_args ? [] : config.cmd)];
  if (command.length === 0)
    throw new BackplaneError("package.invalid", `${reference_text} has no program to start.`);
  const env = Object.fromEntries(
    Object.entries(config.env).filter(([name]) => !SANDBOX_VARIABLES.includes(name)),
  );
  const program = locateProgram(
    image.tree,
    command[0]!,
    env.PATH ?? DEFAULT_PATH,
    config.workdir,
    reference_text,
  );
  const {
    "org.opencontainers.image.description": description,
    "org.opencontainers.image.licenses": license,
  } = config.labels;
  const manifest = ManifestSchema.safeParse({
    api_version: "vai.plugin.v1",
    package_id: packageIdOfImage(reference.repository),
    version: buildVersion(reference.tag, digest, source.with_args),
    name: reference_text.slice(0, 120),
    ...(description ? { description: description.slice(0, 4_000) } : {}),
    ...(license ? { license: license.slice(0, 120) } : {}),
    source: `image:${formatImageReference({ ...reference, digest })}`,
    runtime: {
      protocol: "mcp.stdio",
      entrypoint: [program, ...command.slice(1)],
      os: [host.os],
      arch: [host.arch],
      env: { PATH: DEFAULT_PATH, ...env },
      image: { workdir: config.workdir },
      permissions: {
        network: "egress",
        filesystem: "scratch",
        ...(source.secret_slots.length === 0 ? {} : { secret_slots: [...source.secret_slots] }),
      },
    },
    exports: [],
  });
  if (manifest.success) return manifest.data;
  const [issue] = manifest.error.issues;
  const problem = `${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""}`;
  throw new BackplaneError(
    "package.invalid",
    `${reference_text} cannot be described by a manifest: ${problem}.`,
  );
}

/** A tag can move, so the digest is part of the version. With arguments, the package starts another command. */
function buildVersion(tag: string | null, digest: string, with_args: boolean): string {
  const [, major = "0", minor = "0", patch = "0"] =
    /^v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?/.exec(tag ?? "") ?? [];
  const short = digest.slice("sha256:".length, "sha256:".length + 12);
  return `${Number(major)}.${Number(minor)}.${Number(patch)}+image.${short}${with_args ? ".args" : ""}`;
}

/**
 * Returns the absolute path of a program in the image. A link is not resolved, because some programs depend on the
 * name by which they are started.
 */
function locateProgram(
  tree: ImageTree,
  program: string,
  path: string,
  workdir: string,
  reference_text: string,
): string {
  const candidates = program.includes("/")
    ? [posix.resolve(workdir, program)]
    : path.split(":").map((folder) => posix.resolve(workdir, folder, program));
  const program_file = candidates.find((file) => {
    const node = tree.find(partsOf(file));
    return node?.kind === "file" && node.executable;
  });
  if (program_file !== undefined) return program_file;
  throw new BackplaneError(
    "package.invalid",
    `${reference_text} starts ${program}, which is not an executable file in the image.`,
  );
}

/** Creates the mount points and the working folder of the sandbox. */
function prepareRoot(tree: ImageTree, workdir: string): void {
  const layer = Number.MAX_SAFE_INTEGER;
  if (tree.root.children.has("sandbox"))
    throw unsafeImage("reserved-name", "its name is reserved for the sandbox", "sandbox");
  if (tree.root.children.size > MAX_TOP_ENTRIES)
    throw unsafeImage(
      "too-many-entries",
      `the image has more than ${MAX_TOP_ENTRIES} files and folders at its top level, each of which is mounted`,
    );
  const etc = tree.root.children.get("etc");
  if (etc !== undefined && etc.kind !== "folder") throw unsafeImage("symlink", "it is not a folder", "etc");
  for (const name of REPLACED_FILES) tree.addFile(`etc/${name}`, false, { offset: 0, size: 0 }, layer);
  if (partsOf(workdir).length > 0 && tree.find(partsOf(workdir)) === undefined)
    tree.addFolder(workdir, layer);
  if (tree.find(partsOf(workdir))?.kind !== "folder")
    throw unsafeImage("file-and-folder", "it is not a folder", workdir);
}
