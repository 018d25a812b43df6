import type { Json } from "@backplane/contract";
import type { LiveConfig } from "@backplane/registry";
import { admin } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { bootstrapProviders, SEEDED_KEY } from "../../src/providers/bootstrap.ts";
import { createTestPlugins, plugin, scope } from "../plugins/test-plugins.ts";

const ORG = scope.org_id;

async function createSystem(
  initial: Record<string, Json>,
  plugins = ["llm-openai", "llm-anthropic", "llm-echo"],
) {
  const fixture = await createTestPlugins(
    (loader) => {
      for (const name of plugins) loader.add(() => plugin(name, "llm-provider"));
    },
    { start: false },
  );
  if (Object.keys(initial).length > 0) await fixture.set(initial);
  return { ...fixture, values: async () => Object.fromEntries(await fixture.config.list(ORG)) };
}

verifies("llm.instances", "fills the initial instances from the environment of the host", async () => {
  const defaults = {
    "llm-openai": { api_key: "sk-env-1234", base_url: "https://llm.example.com/v1", model: "m-1" },
    "llm-anthropic": { api_key: "sk-ant-1234" },
  };
  const bootstrap = async (initial: Record<string, Json>) => {
    const fixture = await createSystem(initial);
    await bootstrapProviders(fixture.deps, ORG, ["llm-openai", "llm-anthropic", "llm-echo"], defaults);
    return await fixture.values();
  };
  const fresh = await bootstrap({});
  expect(fresh).toMatchObject({
    "providers.llm-openai.api_key": "sk-env-1234",
    "providers.llm-openai.base_url": "https://llm.example.com/v1",
    "providers.llm-openai.model": "m-1",
    "providers.llm-anthropic.api_key": "sk-ant-1234",
    provider: "llm-openai",
  });
  // An existing configuration keeps its key and its destination. An instance with a key but without a model is not
  // made active.
  const settings = await bootstrap({
    "plugin.llm_openai.api_key": "sk-own",
    "providers.llm-anthropic.base_url": "https://other.example.com",
  });
  expect(settings).toMatchObject({ "providers.llm-openai.api_key": "sk-own", provider: "llm-openai" });
  expect(settings).not.toHaveProperty(["providers.llm-openai.base_url"]);
  expect(settings).not.toHaveProperty(["providers.llm-anthropic.api_key"]);
  const without_model = await createSystem({});
  await bootstrapProviders(without_model.deps, ORG, ["llm-anthropic", "llm-echo"], {
    "llm-anthropic": { api_key: "sk-ant-1234" },
  });
  expect((await without_model.values()).provider).toBe("llm-echo");
});

verifies(
  "llm.instances",
  "creates one instance per provider on the first start and copies its configuration",
  async () => {
    const fixture = await createSystem({
      "plugin.llm_openai.api_key": "sk-secret-1234",
      "plugin.llm_openai.base_url": "https://api.example.com",
      "plugin.llm_openai.enabled": true,
      "plugin.other.api_key": "x",
    });
    await fixture.system.start();
    const values = await fixture.values();
    const created = Object.fromEntries(Object.entries(values).filter(([key]) => key.startsWith("provider")));
    expect(created).toEqual({
      "providers.llm-openai.plugin": "llm-openai",
      "providers.llm-openai.label": "llm-openai",
      "providers.llm-openai.api_key": "sk-secret-1234",
      "providers.llm-openai.base_url": "https://api.example.com",
      "providers.llm-anthropic.plugin": "llm-anthropic",
      "providers.llm-anthropic.label": "llm-anthropic",
      "providers.llm-echo.plugin": "llm-echo",
      "providers.llm-echo.label": "llm-echo",
      provider: "llm-openai",
    });
    expect(values["plugin.llm_openai.api_key"]).toBe("sk-secret-1234");
    expect(values[SEEDED_KEY]).toEqual(expect.stringMatching(/^\d{4}-/));

    // The bootstrap runs only once, so an instance that an operator removed stays removed.
    await fixture.config.write(ORG, { unset: ["providers.llm-anthropic.*"] }, {});
    await bootstrapProviders(fixture.deps, ORG, ["llm-anthropic", "llm-echo"]);
    expect(await fixture.config.list(ORG, "providers.llm-anthropic.")).toEqual(new Map());
  },
);

test("activates the offline provider if no provider has a key, and keeps an operator's choice", async () => {
  const fresh = await createSystem({});
  await fresh.system.start();
  expect((await fresh.values()).provider).toBe("llm-echo");
  const chosen = await createSystem({ provider: "mine", "providers.llm-openai.label": "My label" });
  await chosen.system.start();
  expect(await chosen.values()).toMatchObject({ provider: "mine", "providers.llm-openai.label": "My label" });
});

test("writes the marker last and reaches the same state after a crash at any write", async () => {
  const complete = await createSystem({ "plugin.llm_openai.model": "m" });
  let writes = 0;
  const counting: LiveConfig = {
    ...complete.config,
    write: (...args) => {
      writes++;
      return complete.config.write(...args);
    },
  };
  const plugins = ["llm-openai", "llm-anthropic", "llm-echo"];
  await bootstrapProviders({ ...complete.deps, config: counting }, ORG, plugins);
  const expected = { ...(await complete.values()), [SEEDED_KEY]: expect.any(String) as string };
  expect(writes).toBe(5);
  for (let fatal = 1; fatal <= writes; fatal++) {
    const fixture = await createSystem({ "plugin.llm_openai.model": "m" });
    let left = fatal;
    const dying: LiveConfig = {
      ...fixture.config,
      write: (...args) =>
        --left === 0 ? Promise.reject(new Error("killed")) : fixture.config.write(...args),
    };
    await expect(bootstrapProviders({ ...fixture.deps, config: dying }, ORG, plugins)).rejects.toThrow(
      "killed",
    );
    expect(await fixture.config.get(ORG, SEEDED_KEY)).toBeUndefined();
    await fixture.system.start();
    expect(await fixture.values()).toEqual(expected);
  }
});

test("sets no marker without a provider, so that a later one is still set up", async () => {
  const fixture = await createSystem({}, []);
  await fixture.system.start();
  expect(await fixture.config.get(ORG, SEEDED_KEY)).toBeUndefined();
  fixture.loader.offer("acme-llm", () => plugin("acme-llm", "llm-provider"));
  await fixture.system.facade.install(admin, "acme-llm", { editable: false });
  await fixture.system.prepare(ORG);
  expect(await fixture.config.get(ORG, "provider")).toBe("acme-llm");
});

verifies(
  "sec.credential-destination",
  "does not copy a credential into an instance with another destination",
  async () => {
    const configured = {
      "plugin.llm_openai.api_key": "sk-secret-1234",
      "plugin.llm_openai.base_url": "https://api.example.com",
      "plugin.llm_openai.model": "m",
    };
    const fixture = await createSystem({
      ...configured,
      "providers.llm-openai.base_url": "https://evil.example",
    });
    await fixture.system.start();
    const instance = async () => Object.fromEntries(await fixture.config.list(ORG, "providers.llm-openai."));
    expect(await instance()).toEqual({
      "providers.llm-openai.plugin": "llm-openai",
      "providers.llm-openai.label": "llm-openai",
      "providers.llm-openai.base_url": "https://evil.example",
      "providers.llm-openai.model": "m",
    });
    // The same holds when the bootstrap is repeated after the destination was changed.
    await fixture.config.write(ORG, { unset: [SEEDED_KEY] }, {});
    await bootstrapProviders(fixture.deps, ORG, ["llm-openai"]);
    expect(await instance()).not.toHaveProperty(["providers.llm-openai.api_key"]);
  },
);
