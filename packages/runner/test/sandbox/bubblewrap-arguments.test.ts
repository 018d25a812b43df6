import { expect, test } from "vitest";
import { bwrapCommand } from "../../src/sandbox/bubblewrap-arguments.ts";
import { PLAN } from "../support/plan.ts";

const bwrapWords = (change: Partial<typeof PLAN> = {}) =>
  bwrapCommand({ ...PLAN, uid: null, ...change }, "/usr/bin/bwrap", "/cache/init");

test("shows the plan's folders and sandbox-init, with scratch as a separate tmpfs", () => {
  const text = bwrapWords().join(" ");
  expect(text.startsWith("/usr/bin/bwrap --as-pid-1 ")).toBe(true);
  expect(text).toContain("--ro-bind /root/store/abc /plugin");
  expect(text).toContain("--ro-bind /cache/init /sandbox/init");
  expect(text).toContain("--perms 0700 --size 1024 --tmpfs /sandbox/scratch");
});

test("gives sandbox-init the capabilities that it drops before the plugin starts", () => {
  const text = bwrapWords().join(" ");
  const added = [...text.matchAll(/--cap-add (\w+)/g)].map(([, name]) => name);
  expect(added).toEqual(["CAP_NET_BIND_SERVICE", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SETPCAP"]);
  // The capabilities must be added after all capabilities were dropped.
  expect(text).toMatch(/--cap-drop ALL .*--cap-add/);
});

test("creates all namespaces, mounts /proc read-only, and puts no value of the plugin into argv", () => {
  const words = bwrapWords();
  for (const kind of ["user", "pid", "net", "ipc", "uts"]) expect(words).toContain(`--unshare-${kind}`);
  for (const flag of ["--die-with-parent", "--new-session", "--cap-drop"]) expect(words).toContain(flag);
  const text = words.join(" ");
  expect(text).toContain("--proc /proc --remount-ro /proc");
  expect(text.endsWith("-- /sandbox/init init")).toBe(true);
  expect(text).not.toContain("of the plugin");
  expect(text).not.toContain("main.py");
});

test("makes the root and hidden folders read-only", () => {
  const text = bwrapWords().join(" ");
  expect(text).toContain("--tmpfs /plugin/assets --remount-ro /plugin/assets");
  expect(text).toContain("--remount-ro / -- ");
});
