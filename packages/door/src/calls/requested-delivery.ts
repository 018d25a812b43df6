/** The delivery that a call belongs to, as the call sees it. */
import type { JobHold } from "@backplane/ports";

/** `job` is the lease of the delivery. A direct call to a hook has none. */
export interface RequestedDelivery {
  delivery_id: string;
  attempt: number;
  job?: JobHold;
  /** Called when the hook has ended and its settlement is being written. */
  onEnded?: () => void;
  /** Called when the row is on disk. Returns null if the hook may start now. */
  acquireSlot?: () => SlotWait | null;
}

/** The wait of a call for a slot. `acquired` resolves to false if the call must not start. */
export interface SlotWait {
  acquired: Promise<boolean>;
  interrupt: () => void;
}
