import { expect, test } from "vitest";
import { stageCommands, stageCommandLine } from "../../src/sandbox/stage-commands.ts";
import { PLAN } from "../support/plan.ts";

test("starts the stage as the slot's user and in the slot's cgroup, without any part of the plan", () => {
  const stage = { uid: 59_007, gid: 59_007, init: "/cache/init", join_files: ["/cg/cgroup.procs"] };
  expect(stageCommandLine(stage).join(" ")).toBe("/cache/init stage 59007 59007 /cg/cgroup.procs");
});

test("has one command for each mount, link, hidden folder and scratch, and no other part of the plan", () => {
  expect(stageCommands(PLAN).join(" ")).toBe(
    [
      "system /usr /usr",
      "show /root/store/abc /plugin",
      "share /srv/data /srv/data",
      "link usr/bin /bin",
      "hide /plugin/assets",
      "scratch /sandbox/scratch mode=0700,size=1024,nr_inodes=16,uid=59007,gid=59007",
    ].join(" "),
  );
  expect(stageCommands({ ...PLAN, scratch: null }).join(" ")).not.toContain("scratch");
});

test("gives the scratch folder to the plugin's user even without root", () => {
  expect(stageCommands({ ...PLAN, uid: null }).join(" ")).toContain("uid=1000,gid=1000");
});
