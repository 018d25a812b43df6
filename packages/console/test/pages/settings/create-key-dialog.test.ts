import { expect, test } from "vitest";
import { expiryTime } from "../../../src/pages/settings/create-key-dialog.tsx";

test("expires a key after a duration or at a time", () => {
  const now = Date.parse("2026-01-01T00:00:00Z");
  expect(expiryTime("", "", now)).toBeNull();
  expect(expiryTime("30", "", now)).toBe("2026-01-31T00:00:00.000Z");
  expect(expiryTime("time", "2027-05-06T07:08Z", now)).toBe("2027-05-06T07:08:00.000Z");
  expect(expiryTime("time", "", now)).toBeNull();
});
