/** The chat page and its socket belong to the web adapter. */
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import { startWs } from "../support/test-agent.ts";

verifies(
  "plug.web-adapter",
  "serves the chat page and its sockets only while the web adapter is enabled",
  async () => {
    const api = await startWs({ plugins: await loadBundledPlugins("web") });
    const enable = (enabled: boolean) => api.call("PATCH", "/v1/plugins/web", { body: { enabled } });
    const readStatuses = async () => {
      const paths = ["/", "/static/chat/main.js", "/api/plugins", "/overview", "/v1/plugins"];
      const statuses = paths.map(async (path) => [path, (await api.call("GET", path)).status]);
      return Object.fromEntries(await Promise.all(statuses)) as Record<string, number>;
    };
    const open = {
      "/": 200,
      "/static/chat/main.js": 200,
      "/api/plugins": 200,
      "/overview": 200,
      "/v1/plugins": 200,
    };
    try {
      expect(await readStatuses()).toEqual(open);
      const client = await api.connect();
      client.send({ op: "attach", session_id: "s1" });
      await client.next("attached");
      expect((await enable(false)).json.status).toBe("disabled");
      expect(await client.next("detached")).toMatchObject({ session_id: "s1", reason: "shutdown" });
      expect((await client.closed).reason).toBe("shutdown");
      expect(await readStatuses()).toEqual({
        ...open,
        "/": 404,
        "/static/chat/main.js": 404,
        "/api/plugins": 404,
      });
      const refused = await api.connect().catch((error: Error & { status: number }) => error);
      expect(refused).toMatchObject({ status: 404, message: "route.not_found" });
      const page = await api.call("GET", "/");
      expect(page.json.error.details.fix).toBe("Run `backplane plugin enable web`.");
      expect((await enable(true)).json.status).toBe("loaded");
      expect(await readStatuses()).toEqual(open);
      const again = await api.connect();
      again.send({ op: "attach", session_id: "s1" });
      await again.next("attached");
    } finally {
      await api.close();
    }
  },
);
