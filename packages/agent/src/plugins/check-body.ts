/** A request's body against the schema that its adapter declares, before the adapter sees it. */

import { BackplaneError, canonicalJson, type Json } from "@backplane/contract";
import type { AdapterMount, Schemas } from "@backplane/ports";

export async function checkBody(
  schemas: Schemas | undefined,
  mount: AdapterMount,
  body: Json,
): Promise<void> {
  if (schemas === undefined || mount.body === undefined) return;
  // The schema is part of the key: a reloaded plugin may say something else of the same route.
  const check = await schemas.compile(`adapter ${mount.plugin} ${canonicalJson(mount.body)}`, mount.body);
  const issues = (await check(body)).map(({ path, message }) => ({
    path: `body${path.replaceAll("/", ".")}`,
    message,
  }));
  const [first] = issues;
  if (first === undefined) return;
  throw new BackplaneError("request.invalid", `${first.path}: ${first.message}`, { details: { issues } });
}
