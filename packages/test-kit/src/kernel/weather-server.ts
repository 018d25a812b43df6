/** An MCP server as a package: no exports in the manifest, one secret, a scratch folder. */
import { manifest } from "./manifests.ts";

export const WEATHER_SERVER = manifest([], {
  package_id: "acme/weather",
  runtime: {
    protocol: "mcp.stdio",
    entrypoint: ["node", "server.js"],
    permissions: { filesystem: "scratch", secret_slots: ["api_key"] },
  },
});
