import { expect, test } from "vitest";
import { type Admitted, admit } from "../../src/admission/admit.ts";
import { type Approved, approve } from "../../src/invoke/approve.ts";
import type { Door } from "../../src/invoke/door.ts";
import { type Recorded, record } from "../../src/invoke/record.ts";
import { run } from "../../src/invoke/run.ts";
import type { Opened } from "../../src/open/open.ts";

/** A value with the fields of a branded value, but without the brand. */
type LookAlike<T> = { [K in keyof T as K extends string ? K : never]: T[K] };

/** Never called. `tsc -p tsconfig.test.json` fails if one of these lines compiles. */
export function skippingAStepDoesNotCompile(
  door: Door,
  opened: Opened,
  admitted: Admitted,
  recorded: Recorded,
  look_alike: LookAlike<Opened>,
  forged: LookAlike<Approved>,
): void {
  // @ts-expect-error opened is not admitted
  void record(door, opened);
  // @ts-expect-error admitted is not recorded
  void approve(door, admitted);
  // @ts-expect-error recorded is not approved
  void run(door, recorded);
  // @ts-expect-error opened is not approved
  void run(door, opened);
  // @ts-expect-error a look-alike is not opened
  admit(look_alike, door.state);
  // @ts-expect-error a look-alike is not approved
  void run(door, forged);
}

test("exports the steps, but no constructor of their branded values", async () => {
  const modules = await Promise.all([
    import("../../src/open/open.ts"),
    import("../../src/admission/admit.ts"),
    import("../../src/invoke/record.ts"),
    import("../../src/invoke/approve.ts"),
  ]);
  const classes = modules
    .flatMap((module) => Object.values(module))
    .filter((value) => String(value).startsWith("class"));
  expect(classes).toEqual([]);
});
