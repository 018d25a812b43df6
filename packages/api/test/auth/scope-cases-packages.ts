/** The operations on packages and installations, by the object that they change. */
import { type Case, onMissingObject } from "./scope-matrix.ts";

const folderOnHost = (path: string): Case => ({
  object: "folder on the host",
  scope: "packages:write",
  reach: "host",
  request: (fixture) => ({ path, body: { source: { kind: "folder", path: fixture.folder() } } }),
});

export const PACKAGE_CASES: Readonly<Record<string, readonly Case[]>> = {
  "POST /v1/plugin-packages": [
    {
      object: "package",
      scope: "packages:write",
      reach: "own",
      request: async (fixture) => ({
        path: "/v1/plugin-packages",
        body: await fixture.archive(),
        headers: { "content-type": "application/octet-stream" },
      }),
    },
  ],
  "DELETE /v1/plugin-packages/{id}": [
    {
      object: "package of an org",
      scope: "packages:write",
      reach: "org",
      request: async (fixture) => ({ path: `/v1/plugin-packages/${await fixture.package()}` }),
    },
  ],
  // The operation changes nothing, but shows parts of recorded results.
  "POST /v1/plugin-packages/{id}:replay": [
    {
      object: "recorded calls",
      scope: "packages:write",
      reach: "own",
      request: async (fixture) => ({
        path: `/v1/plugin-packages/${await fixture.package()}:replay`,
        body: {},
      }),
      // No binding uses another version.
      also: [404],
      // These credentials lack invocations:read.
      except: { otherProject: [403], project: [403], foreignOrg: [403], org: [403] },
    },
  ],
  "POST /v1/marketplace/{id}:install": [
    {
      object: "package",
      scope: "packages:write",
      reach: "own",
      request: async () => ({ path: "/v1/marketplace/nothing:install", body: {} }),
      // The marketplace of the fixture is empty.
      also: [404],
    },
  ],
  "POST /v1/plugin-installations": [
    {
      object: "package",
      scope: "packages:write",
      reach: "own",
      request: async (fixture) => ({
        path: "/v1/plugin-installations",
        body: await fixture.archive(),
        headers: { "content-type": "application/octet-stream", "installation-settings": '{"bind":false}' },
      }),
    },
    {
      object: "package and bindings of a project",
      scope: "packages:write",
      reach: "own",
      request: async (fixture) => ({
        path: "/v1/plugin-installations",
        body: await fixture.archive(),
        headers: { "content-type": "application/octet-stream", "installation-settings": '{"bind":true}' },
      }),
      // These credentials lack bindings:write, so nothing is installed.
      except: { otherProject: [403], project: [403], foreignOrg: [403], org: [403] },
    },
    {
      object: "package and bindings of an org",
      scope: "packages:write",
      reach: "named",
      request: async (fixture) => ({
        path: "/v1/plugin-installations",
        body: await fixture.archive(),
        headers: {
          "content-type": "application/octet-stream",
          "installation-settings": '{"bind":true,"org_wide":true}',
        },
      }),
      except: { foreignOrg: [403], org: [403] },
    },
    folderOnHost("/v1/plugin-installations"),
  ],
  // The operation changes nothing, but reads the host's disk.
  "POST /v1/plugin-installations:inspect": [
    {
      object: "archive",
      scope: "packages:write",
      reach: "own",
      request: async (fixture) => ({
        path: "/v1/plugin-installations:inspect",
        body: await fixture.archive(),
        headers: { "content-type": "application/octet-stream" },
      }),
    },
    folderOnHost("/v1/plugin-installations:inspect"),
  ],
  "POST /v1/agent-plugins": [
    {
      object: "package",
      scope: "packages:write",
      reach: "own",
      ...onMissingObject("/v1/agent-plugins"),
      also: [400, 403, 422],
    },
  ],
};
