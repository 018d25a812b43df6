/** One hook call for one event. The id stays the same however often it is tried. */
import type { JsonObject } from "@backplane/contract";

export const DELIVERIES = "deliveries";

export interface Delivery {
  delivery_id: string;
  binding_id: string;
  org_id: string;
  project_id: string | null;
  event: JsonObject;
}
