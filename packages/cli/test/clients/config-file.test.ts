/** Configuration files of other programs: no content is lost, and only the owner can read the key. */
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  readBackup,
  readConfigFile,
  replaceConfigFile,
  restoreConfigFile,
} from "../../src/clients/config-file.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "backplane-config-"));
  return () => rmSync(folder, { recursive: true, force: true });
});

verifies("client.connect", "refuses to overwrite a file that changed after it was read", () => {
  const path = join(folder, "config.json");
  for (const initial of [null, "{}"]) {
    if (initial !== null) writeFileSync(path, initial);
    const file = readConfigFile(path);
    writeFileSync(path, '{"theirs": 1}');
    for (const change of [() => replaceConfigFile(file, "{}"), () => restoreConfigFile(file, null)])
      expect(change).toThrow(expect.objectContaining({ code: "client.config_changed" }));
    expect(readFileSync(path, "utf8")).toBe('{"theirs": 1}');
    expect(readdirSync(folder)).toEqual(["config.json"]);
  }
});

test("refuses the second of two edits that are based on the same content", () => {
  const path = join(folder, "config.json");
  writeFileSync(path, "0");
  const first = readConfigFile(path);
  const second = readConfigFile(path);
  replaceConfigFile(first, "1");
  expect(() => replaceConfigFile(second, "2")).toThrow(
    expect.objectContaining({ code: "client.config_changed" }),
  );
  expect(readFileSync(path, "utf8")).toBe("1");
  expect(readBackup(first)).toBe("0");
});

test("refuses a folder, a file that is not UTF-8, and a file that cannot be created", () => {
  const path = join(folder, "x");
  mkdirSync(path);
  expect(() => readConfigFile(path)).toThrow("it is not a regular file");
  writeFileSync(join(folder, "latin1"), Buffer.from([0x7b, 0xe4, 0x7d]));
  expect(() => readConfigFile(join(folder, "latin1"))).toThrow("it is not UTF-8");
  const path_below_file = join(folder, "latin1", "config.json");
  expect(() => replaceConfigFile(readConfigFile(path_below_file), "{}")).toThrow(
    expect.objectContaining({ code: "client.config_invalid" }),
  );
});

test.skipIf(process.getuid?.() !== 0)(
  "sets the owner of a new file to that of its folder only as root",
  () => {
    chownSync(folder, 1_234, 1_234);
    const create = (name: string) => {
      const path = join(folder, name, "config.json");
      replaceConfigFile(readConfigFile(path), "{}");
      expect(statSync(path).mode & 0o777).toBe(0o600);
      return statSync(path).uid;
    };
    expect(create("as-root")).toBe(1_234);
    // Another user may not change owners, and a folder that is shared with others may belong to any of them.
    vi.spyOn(process, "getuid").mockReturnValue(1_000);
    onTestFinished(() => void vi.restoreAllMocks());
    expect(create("as-user")).toBe(0);
  },
);
