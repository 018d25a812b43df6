/** System programs that plugins often use, with a mount and without any settings from the plugin. */
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createEmptyFolder, openTestSandbox, createPackageFolder, sh } from "../support/sandbox.ts";

const OTHER_UID = 12_345;
const root = process.getuid!() === 0;

test.runIf(root && existsSync("/usr/bin/git"))("git reads a mounted repository of another user", async () => {
  const folder = createEmptyFolder();
  const repository = join(folder, "project");
  const git = (...args: string[]) =>
    execFileSync("/usr/bin/git", ["-c", "user.name=A", "-c", "user.email=a@example.com", ...args]);
  git("init", "--quiet", repository);
  writeFileSync(join(repository, "notes.txt"), "hello\n");
  git("-C", repository, "add", ".");
  git("-C", repository, "commit", "--quiet", "-m", "first commit");
  execFileSync("/bin/chown", ["-R", `${OTHER_UID}:${OTHER_UID}`, folder]);
  execFileSync("/bin/chmod", ["-R", "a+rX", folder]);
  const sandbox = await openTestSandbox();
  const ran = await sh(sandbox, "cd /data/project && git log --format=%s && git status --short", {
    folder: await createPackageFolder(),
    grant: { mounts: [{ source: folder, target: "/data", writable: false }] },
  });
  expect(ran).toMatchObject({ out: "first commit\n", err: "" });
});

test.runIf(existsSync("/etc/chromium.d") && existsSync("/usr/bin/chromium"))(
  "Debian's chromium renders a mounted page",
  { timeout: 120_000 },
  async () => {
    const folder = createEmptyFolder();
    chmodSync(folder, 0o755);
    writeFileSync(join(folder, "page.html"), "<p id=a></p><script>a.textContent = 6 * 7</script>");
    const sandbox = await openTestSandbox({ limits: { memory_bytes: 2 ** 31 } });
    const ran = await sh(
      sandbox,
      "exec chromium --headless --disable-gpu --dump-dom file:///data/page.html",
      {
        folder: await createPackageFolder(),
        grant: {
          filesystem: "scratch",
          mounts: [{ source: folder, target: "/data", writable: false }],
        },
      },
    );
    expect(ran.out).toContain('<p id="a">42</p>');
  },
);
