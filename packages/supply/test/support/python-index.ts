/** A local index of Python packages: the pages of PEP 503 and PEP 691, and the files. */
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { type TarEntry, tar } from "./tar-bytes.ts";
import { zip } from "./zip-bytes.ts";

export interface PythonIndex {
  /** The value of `pypi.index_url`. */
  url: string;
  /** Publishes a wheel or an sdist under its file name. `sha256` is the hash that the page announces. */
  publish(project: string, file: string, bytes: Buffer, sha256?: string): void;
  requests: string[];
  /** The Authorization headers of the requests that have one. */
  logins: string[];
  /** Requests whose path matches never get a response. */
  stalls: RegExp | null;
  /** Requests whose path matches get an endless response. */
  endless: RegExp | null;
  close(): Promise<void>;
}

export async function startPythonIndex(): Promise<PythonIndex> {
  const projects = new Map<string, Map<string, { bytes: Buffer; sha256: string }>>();
  const requests: string[] = [];
  const logins: string[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? "");
    requests.push(path);
    if (request.headers.authorization !== undefined) logins.push(request.headers.authorization);
    if (index.stalls?.test(path)) return;
    if (index.endless?.test(path)) return void Readable.from(zeros()).pipe(response);
    const [, kind, project = "", file = ""] = /^\/(simple|files)\/([^/]+)\/(.*)$/.exec(path) ?? [];
    const files = projects.get(project);
    if (files === undefined) return void response.writeHead(404).end();
    if (kind === "files") return void response.end(files.get(file)?.bytes ?? "");
    const links = [...files].map(([name, { sha256 }]) => ({
      filename: name,
      url: `../../files/${project}/${name}`,
      hashes: { sha256 },
    }));
    if (request.headers.accept?.includes("application/vnd.pypi.simple.v1+json")) {
      response.setHeader("content-type", "application/vnd.pypi.simple.v1+json");
      return void response.end(
        JSON.stringify({ meta: { "api-version": "1.0" }, name: project, files: links }),
      );
    }
    response.setHeader("content-type", "text/html");
    response.end(
      links
        .map(({ filename, url, hashes }) => `<a href="${url}#sha256=${hashes.sha256}">${filename}</a>`)
        .join("\n"),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const index: PythonIndex = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/simple`,
    requests,
    logins,
    stalls: null,
    endless: null,
    publish(project, file, bytes, sha256 = sha256Of(bytes)) {
      const files = projects.get(project) ?? new Map();
      projects.set(project, files.set(file, { bytes, sha256 }));
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return index;
}

function* zeros(): Generator<Buffer, void> {
  for (;;) yield Buffer.alloc(64 * 1024);
}

export interface WheelContent {
  name: string;
  version?: string;
  /** Such as `py3-none-any`. */
  tag?: string;
  requires?: readonly string[];
  /** Lines of the section console_scripts. */
  scripts?: readonly string[];
  metadata?: readonly string[];
  files?: Readonly<Record<string, string>>;
  /** Changes the RECORD, given its lines. */
  record?: (lines: string[]) => string[];
}

/** The file name and the bytes of a wheel. */
export function wheel(content: WheelContent): { file: string; bytes: Buffer } {
  const { name, version = "1.0.0", tag = "py3-none-any", requires = [], scripts = [] } = content;
  const stem = `${name.replaceAll("-", "_")}-${version}`;
  const info = `${stem}.dist-info`;
  const files: Record<string, string> = {
    ...content.files,
    [`${info}/METADATA`]: [
      "Metadata-Version: 2.1",
      `Name: ${name}`,
      `Version: ${version}`,
      ...(content.metadata ?? []),
      ...requires.map((each) => `Requires-Dist: ${each}`),
      "",
    ].join("\n"),
    [`${info}/WHEEL`]: [
      "Wheel-Version: 1.0",
      "Generator: test",
      `Root-Is-Purelib: ${tag.endsWith("-none-any")}`,
      `Tag: ${tag}`,
      "",
    ].join("\n"),
    ...(scripts.length === 0
      ? {}
      : { [`${info}/entry_points.txt`]: `[console_scripts]\n${scripts.join("\n")}\n` }),
  };
  const lines = Object.entries(files).map(([path, text]) => {
    const sha256 = createHash("sha256").update(text).digest("base64url");
    return `${path},sha256=${sha256},${Buffer.byteLength(text)}`;
  });
  const record = [...(content.record?.(lines) ?? lines), `${info}/RECORD,,`].join("\n");
  const parts = Object.entries({ ...files, [`${info}/RECORD`]: `${record}\n` }).map(([path, body]) => ({
    name: path,
    body,
    mode: 0o100644,
  }));
  return { file: `${stem}-${tag}.whl`, bytes: zip(parts) };
}

export function sha256Of(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/**
 * A PEP 517 build backend with only the standard library. It puts the files of the folder `files` into a wheel that
 * `about.json` describes.
 */
export const BACKEND = `
import base64, hashlib, json, os, zipfile

def build_wheel(directory, config_settings=None, metadata_directory=None):
    with open("about.json") as file:
        about = json.load(file)
    stem = about["name"].replace("-", "_") + "-" + about["version"]
    info = stem + ".dist-info"
    metadata = ["Metadata-Version: 2.1", "Name: " + about["name"], "Version: " + about["version"]]
    metadata += ["Requires-Dist: " + each for each in about.get("requires", [])]
    content = {
        info + "/METADATA": "\\n".join(metadata) + "\\n",
        info + "/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        info + "/entry_points.txt": "[console_scripts]\\n" + "\\n".join(about.get("scripts", [])) + "\\n",
    }
    for folder, _, names in os.walk("files"):
        for name in names:
            path = os.path.join(folder, name)
            with open(path) as file:
                content[os.path.relpath(path, "files")] = file.read()
    lines = []
    for path, text in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append("%s,sha256=%s,%d" % (path, digest, len(text.encode())))
    content[info + "/RECORD"] = "\\n".join(lines + [info + "/RECORD,,", ""])
    name = stem + "-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as archive:
        for path, text in content.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return name
`;

export interface SdistContent {
  name: string;
  version?: string;
  /** The files of the archive below its only folder. */
  files: Readonly<Record<string, string>>;
  /** Further entries, such as links. */
  entries?: readonly TarEntry[];
}

/** The file name and the bytes of a source archive. */
export function sdist({ name, version = "1.0.0", files, entries = [] }: SdistContent): {
  file: string;
  bytes: Buffer;
} {
  const stem = `${name.replaceAll("-", "_")}-${version}`;
  const parts = Object.entries(files).map(([path, body]) => ({ name: `${stem}/${path}`, body }));
  return { file: `${stem}.tar.gz`, bytes: gzipSync(tar(...parts, ...entries)) };
}

/** The files of an archive that builds itself with the backend above, without build requirements. */
export function selfBuildingSource(
  about: { name: string; version?: string; requires?: string[]; scripts?: string[] },
  files: Readonly<Record<string, string>> = {},
): SdistContent {
  const described = { version: "1.0.0", ...about };
  return {
    name: about.name,
    version: described.version,
    files: {
      "pyproject.toml":
        '[build-system]\nrequires = []\nbuild-backend = "own_backend"\nbackend-path = ["."]\n',
      "own_backend.py": BACKEND,
      "about.json": JSON.stringify(described),
      ...Object.fromEntries(Object.entries(files).map(([path, text]) => [`files/${path}`, text])),
    },
  };
}
