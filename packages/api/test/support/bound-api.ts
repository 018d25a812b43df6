/** A listening API with the sample package installed and some of its exports bound. */
import { PACKAGE_ID, writeSamplePackage } from "./sample-package.ts";
import { startApi, type TestApi } from "./start-api.ts";

export interface BoundApi {
  api: TestApi;
  base: string;
}

export async function startBoundApi(
  export_ids: readonly string[],
  scopes: string[] = [],
  options: Parameters<typeof startApi>[0] = {},
): Promise<BoundApi> {
  const api = await startApi(options);
  const base = await api.api.listen({ host: "127.0.0.1", port: 0 });
  const folder = writeSamplePackage(api.home, "1.0.0", "", scopes);
  await api.call("POST", "/v1/plugin-packages", { body: { source: { folder } } });
  for (const export_id of export_ids) await bindSample(api, export_id);
  return { api, base };
}

/** Returns the id of the binding. */
export async function bindSample(
  api: TestApi,
  export_id: string,
  headers: Record<string, string> = {},
): Promise<string> {
  const body = { package_id: PACKAGE_ID, package_version: "1.0.0", export_id };
  return (await api.call("POST", "/v1/plugin-bindings", { body, headers })).json.binding_id as string;
}
