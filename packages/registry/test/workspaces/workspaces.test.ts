import type { Caller } from "@backplane/ports";
import { expect, test } from "vitest";
import { createWorkspaces, type WorkspacesDeps } from "../../src/workspaces/workspaces.ts";

const admin: Caller = {
  actor: "admin",
  scope: { org_id: "org_local", project_id: null },
  role: "owner",
  scopes: ["admin"],
  admin: true,
};

test("refuses to trust files that changed after their review, while the request was queued", async () => {
  const surveys = ["sha256:reviewed", "sha256:other"];
  const requests: string[] = [];
  const services = {
    deps: {
      clock: { now: () => 0, monotonic: () => 0 },
      ids: { next: () => "ws_1" },
      store: { bindings: { get: async () => null } },
      importer: {
        import: async ({ digest }: { digest: string }) => {
          requests.push(digest);
          throw new Error("imported");
        },
      },
    },
    folders: {
      resolve: async (path: string) => path,
      survey: async () => ({ digest: surveys.shift() ?? "sha256:other", files: [], tool_files: true }),
    },
  } as unknown as WorkspacesDeps;
  const { facade } = createWorkspaces(services);
  const request = { path: "/tools", kind: "workspace", watch: false, digest: "sha256:reviewed" } as const;
  await facade.trust(admin, request).catch(() => {});
  await expect(facade.trust(admin, request)).rejects.toMatchObject({ code: "workspace.changed" });
  expect(requests.filter((digest) => digest !== request.digest)).toEqual([]);
});
