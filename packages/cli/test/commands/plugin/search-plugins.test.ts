/** The text of `plugin search`: cards, servers of a public registry, and catalogs that cannot be read. */
import { expect, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { type FakeResponse, startFakeGateway } from "../../support/fake-gateway.ts";

const ORIGIN = { name: "Acme", location: "https://acme.test", fetched_at: null, stale: false, problem: null };
const KEY = { key_id: "ed25519:1", public_key: "PEM" };

function createCard(change: object = {}): object {
  return {
    id: "weave",
    name: "Weave",
    description: "Compacts\nconversations\u001b[31m.",
    status: "available",
    reason: null,
    package: { package_id: "acme/weave", version: "1.0.0", exports: [] },
    publisher: { name: "Acme", url: null },
    review: { status: "reviewed", reviewed_at: null, notes: null },
    signature: KEY,
    abilities: ["It cannot use the network.", "It receives no secrets."],
    installable: true,
    key_trusted: true,
    in_use: [],
    upgrades: [],
    ...change,
  };
}

const SERVER = {
  name: "io.github.acme/weather",
  version: "2.0.0",
  description: "Weather reports.",
  repository: null,
  sources: ["npm:@acme/weather@2.0.0", "pypi:acme-weather==2.0.0", "image:acme/weather"],
  variables: [
    { name: "WEATHER_KEY", secret: true },
    { name: "REGION", secret: false },
  ],
};

interface Contents {
  items?: object[];
  catalogs?: object[];
  servers?: object[];
  registry?: object | null;
}

/** Runs `plugin search` against a gateway whose marketplace has these contents. */
async function search(contents: Contents, ...words: string[]) {
  const { items = [], catalogs = [ORIGIN], servers = [], registry = null } = contents;
  const respond = ({ pathname }: URL): FakeResponse => ({
    json: pathname === "/v1/marketplace-servers" ? { items: servers, registry } : { items, catalogs },
  });
  const gateway = await startFakeGateway(respond);
  const { exit, out, err } = await gateway.backplane("plugin", "search", ...words);
  expect(exit).toBe(0);
  return { out, err, requests: gateway.requests };
}

verifies(
  "api.marketplace",
  "prints each card with its abilities and the command that installs it",
  async () => {
    const not_trusted = createCard({ id: "loom", name: "Loom", key_trusted: false });
    const { out, err, requests } = await search({ items: [createCard(), not_trusted] });
    expect(out).toBe(`weave  Weave 1.0.0 by Acme (available, reviewed)
  Compacts · conversations.
  It cannot use the network.
  It receives no secrets.
  Signed with ed25519:1, which is trusted here.
  backplane plugin install marketplace:weave
loom  Loom 1.0.0 by Acme (available, reviewed)
  Compacts · conversations.
  It cannot use the network.
  It receives no secrets.
  Signed with ed25519:1, which is not trusted here. To trust it: backplane key trust FILE --name NAME
  backplane plugin install marketplace:loom
`);
    expect(err).toBe("");
    // Without words there is nothing to search a registry for.
    expect(requests).toEqual(["GET /v1/marketplace"]);
  },
);

verifies(
  "api.marketplace",
  "prints why a card cannot be installed, and no command to install it",
  async () => {
    const { out } = await search({
      items: [
        createCard({
          status: "contract-ready",
          reason: "No signed artifact is published.",
          review: { status: "unreviewed" },
          signature: null,
          installable: false,
          key_trusted: null,
        }),
      ],
    });
    expect(out).toMatch(/^weave {2}Weave 1\.0\.0 by Acme \(contract-ready, unreviewed\)\n/);
    expect(out).toMatch(/\n {2}Not installable: No signed artifact is published\.\n$/);
    expect(out).not.toMatch(/plugin install|Signed with/);
  },
);

verifies(
  "api.marketplace",
  "prints servers of a public registry as not reviewed, after the cards",
  async () => {
    const { out, requests } = await search(
      {
        items: [createCard()],
        servers: [SERVER, { ...SERVER, name: "acme/nuget", description: "", sources: [], variables: [] }],
        registry: ORIGIN,
      },
      "weather",
    );
    expect(out).toMatch(/^weave /);
    expect(
      out.slice(out.indexOf("io.github")),
    ).toBe(`io.github.acme/weather 2.0.0 (public registry, not reviewed)
  Weather reports.
  Needs WEATHER_KEY (secret), REGION.
  backplane plugin install npm:@acme/weather@2.0.0
  backplane plugin install pypi:acme-weather==2.0.0
acme/nuget 2.0.0 (public registry, not reviewed)
  None of its packages can be installed: their types are not supported.
`);
    expect(requests.sort()).toEqual(["GET /v1/marketplace", "GET /v1/marketplace-servers"]);
  },
);

test("says that nothing was found, and how to search MCP servers as well", async () => {
  expect((await search({}, "nothing")).out).toMatch(
    /^Nothing found in the marketplace\. .*marketplace\.mcp_registry in backplane\.toml\.\n$/,
  );
  expect((await search({ registry: ORIGIN }, "nothing")).out).toBe("Nothing found.\n");
  expect((await search({ registry: ORIGIN })).out).toBe("The marketplace has no entries.\n");
});

test("notes on stderr which catalog or registry cannot be read, and whether a copy was used", async () => {
  const old_copy = { ...ORIGIN, fetched_at: "2026-01-01T00:00:00.000Z", problem: "HTTP 503." };
  const { out, err } = await search(
    {
      items: [createCard()],
      catalogs: [old_copy],
      registry: { ...ORIGIN, name: "Public", problem: "No route." },
    },
    "weave",
  );
  expect(out).not.toContain("cannot be read");
  expect(err).toBe(
    "Acme cannot be read: HTTP 503. The copy from 2026-01-01T00:00:00.000Z was used.\n" +
      "Public cannot be read: No route. Its entries are not included.\n",
  );
});
