import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { checkPython } from "../../src/doctor/check-python.ts";

test("reports the tool that installs Python packages, or how to install one if there is none", async () => {
  const root = mkdtempSync(join(tmpdir(), "backplane-doctor-python-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const [bin, empty] = [join(root, "bin"), join(root, "empty")];
  for (const folder of [bin, empty]) mkdirSync(folder);
  // A virtual environment without pip, which uses the system's python3.
  symlinkSync("/usr/bin/python3", join(bin, "python3"));
  writeFileSync(join(root, "pyvenv.cfg"), "home = /usr/bin\ninclude-system-site-packages = false\n");
  const check = async (gateway_path: string, plugin_path: string) => {
    const { status, message } = await checkPython(gateway_path, [plugin_path]);
    expect(status).toBe("ok");
    return message;
  };
  expect(await check(empty, "/usr/bin")).toMatch(/^\/usr\/bin\/python3 \(3\.\d+\) with pip$/);
  expect(await check(empty, bin)).toMatch(
    /^pypi: packages cannot be installed\. There is no pip .*, or install uv$/,
  );
  expect(await check(bin, empty)).toMatch(
    /There is no python3 in .* apt-get install -y python3 python3-pip$/,
  );
  writeFileSync(join(bin, "uv"), "#!/bin/sh\n");
  chmodSync(join(bin, "uv"), 0o755);
  expect(await check(bin, bin)).toMatch(/python3 \(3\.\d+\) with uv, which fetches pip$/);
});
