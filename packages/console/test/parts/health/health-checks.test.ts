import { expect, test } from "vitest";
import { checkInstrument, checkPluginHealth, worstStatus } from "../../../src/parts/health/health-checks.ts";

test("names the command that fixes a plugin, and does not count a stopped instrument as a problem", () => {
  const plugin = checkPluginHealth({
    name: "llm-openai",
    status: "failed",
    summary: "no key",
    details: [{ name: "key", status: "failed", config_key: "providers.llm-openai.model" }],
  });
  expect(plugin.fix).toBe("backplane config set providers.llm-openai.model VALUE");
  const stopped = checkInstrument({
    plugin_id: "p",
    binding_id: "b",
    instrument: "scope",
    status: "Unknown",
    seen_at: null,
    message: null,
  });
  expect(stopped.status).toBe("ok");
  expect(worstStatus([stopped, plugin])).toBe("failed");
});
