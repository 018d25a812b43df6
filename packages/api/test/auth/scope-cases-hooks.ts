/** The cases of the matrix that belong to hooks, their deliveries and recorded frames. */
import type { Case } from "./scope-matrix.ts";

export const HOOK_CASES: Readonly<Record<string, readonly Case[]>> = {
  "POST /v1/plugin-bindings/{id}:pause": [
    {
      object: "hook of a project",
      scope: "bindings:write",
      reach: "project",
      request: async (fixture) => ({
        path: `/v1/plugin-bindings/${await fixture.binding(false, "notify")}:pause`,
      }),
    },
    {
      object: "hook of an org",
      scope: "bindings:write",
      reach: "org",
      request: async (fixture) => ({
        path: `/v1/plugin-bindings/${await fixture.binding(true, "notify")}:pause`,
      }),
    },
  ],
  "POST /v1/plugin-bindings/{id}:resume": [
    {
      object: "hook of a project",
      scope: "bindings:write",
      reach: "project",
      request: async (fixture) => ({
        path: `/v1/plugin-bindings/${await fixture.binding(false, "notify")}:resume`,
      }),
    },
    {
      object: "hook of an org",
      scope: "bindings:write",
      reach: "org",
      request: async (fixture) => ({
        path: `/v1/plugin-bindings/${await fixture.binding(true, "notify")}:resume`,
      }),
    },
  ],
  "POST /v1/plugin-bindings/{id}:record-frames": [
    {
      object: "binding of a project",
      scope: "bindings:write",
      reach: "project",
      request: async (fixture) => ({
        path: `/v1/plugin-bindings/${await fixture.binding(false, "notify")}:record-frames`,
        body: { seconds: 0 },
      }),
      // The scripted runner has no frames to record.
      also: [400],
    },
    {
      object: "binding of an org",
      scope: "bindings:write",
      reach: "org",
      request: async (fixture) => ({
        path: `/v1/plugin-bindings/${await fixture.binding(true, "notify")}:record-frames`,
        body: { seconds: 0 },
      }),
      // The scripted runner has no frames to record.
      also: [400],
    },
  ],
  "POST /v1/plugin-bindings/{id}:test": [
    {
      object: "hook of a project",
      scope: "bindings:write",
      reach: "project",
      request: async (fixture) => ({
        path: `/v1/plugin-bindings/${await fixture.binding(false, "notify")}:test`,
        body: {},
      }),
    },
    {
      object: "hook of an org",
      scope: "bindings:write",
      // Every project may call the exports that its org has bound; the hook gets the caller's project.
      reach: "own",
      except: { foreignOrg: [404] },
      request: async (fixture) => ({
        path: `/v1/plugin-bindings/${await fixture.binding(true, "notify")}:test`,
        body: {},
      }),
    },
  ],
  "POST /v1/deliveries/{id}:replay": [
    {
      object: "delivery",
      scope: "invocations:write",
      reach: "project",
      async request(fixture) {
        const binding_id = await fixture.binding(false, "notify");
        const { id } = await fixture.admin("POST", `/v1/plugin-bindings/${binding_id}:test`, {});
        return { path: `/v1/deliveries/${String(id)}:replay` };
      },
      // The delivery is not dead, so it cannot be replayed.
      also: [409],
    },
  ],
  "POST /v1/deliveries/{id}:discard": [
    {
      object: "delivery",
      scope: "invocations:write",
      reach: "project",
      async request(fixture) {
        const binding_id = await fixture.binding(false, "notify");
        const { id } = await fixture.admin("POST", `/v1/plugin-bindings/${binding_id}:test`, {});
        return { path: `/v1/deliveries/${String(id)}:discard` };
      },
      // A delivery that is already complete cannot be discarded.
      also: [409],
    },
  ],
};
