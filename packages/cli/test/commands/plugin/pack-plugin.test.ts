/** `plugin pack` never overwrites or removes what another process creates at the same path meanwhile. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { moveToNewFile, moveToNewFolder } from "../../../src/commands/plugin/new-output.ts";
import { packPlugin } from "../../../src/commands/plugin/pack-plugin.ts";
import type { CommandContext } from "../../../src/context/context.ts";
import { createOutput } from "../../../src/terminal/output.ts";
import { captureIo } from "../../support/capture-io.ts";
import { PLUGIN } from "../../support/gateway.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "backplane-pack-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Packs the test plugin; `interfere` runs after the check that the path does not exist. */
async function pack(out: string, interfere: () => void = () => {}): Promise<void> {
  const io = captureIo({ cwd: folder });
  const output = createOutput(io, {});
  const during = async <T>(_text: string, work: () => Promise<T>) => {
    interfere();
    return await work();
  };
  const context = { io, out: { ...output, during } } as unknown as CommandContext;
  await packPlugin(context, { out, oci: true }, PLUGIN);
}

test("keeps a tar file that another process created", async () => {
  const file = join(folder, "kit.tar");
  await expect(pack("kit.tar", () => writeFileSync(file, "foreign"))).rejects.toThrow("already exists");
  expect(readFileSync(file, "utf8")).toBe("foreign");
});

test("keeps a folder that another process created, and leaves nothing else behind", async () => {
  const create = () => {
    mkdirSync(join(folder, "kit"));
    writeFileSync(join(folder, "kit/file"), "foreign");
  };
  await expect(pack("kit", create)).rejects.toThrow("already exists");
  expect(readFileSync(join(folder, "kit/file"), "utf8")).toBe("foreign");
  expect(readdirSync(folder)).toEqual(["kit"]);
});

test("packs a layout as a folder and as a tar file", async () => {
  await pack("kit");
  await pack("kit.tar");
  expect(readdirSync(folder).sort()).toEqual(["kit", "kit.tar"]);
  expect(readdirSync(join(folder, "kit")).sort()).toEqual(["blobs", "index.json", "oci-layout"]);
  await expect(pack("none/kit")).rejects.toThrow("cannot be written");
  // A file cannot contain other files.
  for (const path of ["kit.tar/kit", "kit.tar/kit.tar"])
    await expect(pack(path), path).rejects.toThrow("cannot be written");
});

test("moves a download only to a path that does not exist", async () => {
  const [draft, target] = [join(folder, "draft"), join(folder, "target")];
  writeFileSync(draft, "new");
  writeFileSync(target, "old");
  await expect(moveToNewFile(draft, target)).rejects.toThrow("already exists");
  expect(readFileSync(target, "utf8")).toBe("old");
  rmSync(target);
  await moveToNewFile(draft, target);
  expect(readFileSync(target, "utf8")).toBe("new");
  mkdirSync(join(folder, "layout"));
  await expect(moveToNewFolder(join(folder, "layout"), target)).rejects.toThrow("already exists");
});
