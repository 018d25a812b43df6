/** `policy` and `tool` commands against a real gateway. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { EXIT } from "../../src/index.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.close());

const setPolicy = (...argv: string[]) => gateway.backplane(["policy", "set", ...argv]);
const readPolicy = async () => ((await gateway.json(["policy", "show"])) as { policy: unknown }).policy;

test("sets single fields, resets them with null, replaces the whole policy, and rejects invalid values", async () => {
  expect(await setPolicy("tolerance.conversation", "medium")).toMatchObject({
    exit: EXIT.ok,
    out: "Set tolerance.conversation (generation 1)\n",
  });
  await setPolicy("tolerance.headless", "none");
  await setPolicy("roles.guest.max_risk", "low");
  await setPolicy("allowed_origins", '["core","bundled"]');
  expect(await readPolicy()).toEqual({
    tolerance: { conversation: "medium", headless: "none" },
    roles: { guest: { max_risk: "low" } },
    allowed_origins: ["core", "bundled"],
  });
  await setPolicy("tolerance.headless", "null");
  await setPolicy("allowed_origins", "null");
  expect(await readPolicy()).toEqual({
    tolerance: { conversation: "medium" },
    roles: { guest: { max_risk: "low" } },
  });
  const policy_text = (await gateway.backplane(["policy", "show"])).out;
  expect(policy_text).toContain('tolerance: {"conversation":"medium","background":"low","headless":"low"}');
  expect((await setPolicy("tolerance.conversation", "everything")).exit).not.toBe(EXIT.ok);
  expect((await setPolicy("nothing", "1")).exit).not.toBe(EXIT.ok);
  expect((await setPolicy("a..b", "1")).exit).toBe(EXIT.usage);
  const malformed = await setPolicy("roles.guest", "{max_risk");
  expect([malformed.exit, malformed.err]).toEqual([
    EXIT.usage,
    expect.stringContaining("roles.guest is not JSON"),
  ]);
  const empty = await gateway.backplane(["policy", "set", "tolerance.conversation"], { stdin: "" });
  expect([empty.exit, empty.err]).toEqual([EXIT.usage, expect.stringContaining("The value of tolerance")]);
  // A risk may be set before its tool exists, so a misspelled name is reported.
  expect((await setPolicy("risks.agnet", "low")).err).toContain("No tool matches agnet yet;");
  expect((await setPolicy("risks.ag*t", "low")).err).toBe("");
  // After several concurrent changes the policy contains all of them.
  const names = ["a", "b", "c", "d"];
  const concurrent = await Promise.all(names.map((name) => setPolicy(`risks.at_once_${name}`, "low")));
  expect(concurrent.map(({ exit }) => exit)).toEqual(names.map(() => EXIT.ok));
  expect(Object.keys(((await readPolicy()) as { risks: object }).risks)).toEqual(
    expect.arrayContaining(names.map((name) => `at_once_${name}`)),
  );
  const replaced = await gateway.backplane(["policy", "set", "."], { stdin: "{}" });
  expect([replaced.exit, await readPolicy()]).toEqual([EXIT.ok, {}]);
});

test("lists the catalog with token costs, and explains a decision with the deciding rule", async () => {
  const { out, err } = await gateway.backplane(["tool", "list", "--all"]);
  expect(out).toMatch(/^NAME +ORIGIN +PACKAGE +RISK +CATEGORY +TOKENS +STATUS +WHY\n/);
  expect(out).toMatch(/tool_search +core +core\/backplane +low .*hidden +no tool is deferred/);
  expect(err).toMatch(/About \d+ tokens in every model call/);
  const agent = await gateway.backplane(["policy", "explain", "agent"]);
  expect(agent.exit).toBe(EXIT.ok);
  expect(agent.out).toContain("agent needs approval. approval: the tool requires approval");
  expect(agent.out).toMatch(/RULE +DECIDES +WHY\nstopping +pass/);
  const headless = await gateway.backplane(["policy", "explain", "agent", "--context", "headless"]);
  expect([headless.exit, headless.out.split("\n")[0]]).toEqual([
    EXIT.denied,
    "agent is denied. approval: A headless run cannot ask for approval of this call: the tool requires approval.",
  ]);
  await gateway.backplane(["policy", "set", "channels.mcp.allowedToolCategories", '["coding"]']);
  await gateway.backplane(["policy", "set", "channels.mcp.tolerance.conversation", "none"]);
  const limited = await gateway.backplane(["policy", "explain", "agent", "--channel", "mcp"]);
  expect([limited.exit, limited.out]).toEqual([EXIT.denied, expect.stringMatching(/\nchannel: +mcp\n/)]);
  expect(limited.out).toContain("agent is denied. channel: The channel mcp does not allow agent");
  const listed = await gateway.backplane(["tool", "list", "--all", "--channel", "mcp"]);
  expect(listed.out).toMatch(/agent +bundled .*hidden +The channel mcp does not allow agent/);
  await gateway.backplane(["policy", "set", "channels.mcp.allowed_tool_categories", "null"]);
  const risky = await gateway.backplane(["policy", "explain", "skill", "--channel", "mcp"]);
  expect(risky.err).toContain("backplane policy set channels.mcp.tolerance.conversation low");
  await gateway.backplane(["policy", "set", "channels", "null"]);
  const tool = await gateway.backplane(["tool", "show", "agent"]);
  expect(tool.out).toMatch(/^name: +agent\nstatus: +offered\norigin: +bundled\n/);
  expect((await gateway.backplane(["tool", "show", "nothing"])).err).toContain("tool.not_found");
});

test("rejects a field that the policy does not have, and suggests the one that was meant", async () => {
  const { exit, err } = await gateway.backplane(["policy", "set", "tolerence.conversation", "low"]);
  expect([exit, err]).toEqual([
    EXIT.usage,
    expect.stringContaining("tolerence is not a field of the policy. Did you mean tolerance?"),
  ]);
  expect(err).toContain("Use one of: tolerance,");
});
