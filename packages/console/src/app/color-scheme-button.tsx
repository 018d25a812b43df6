import { ActionIcon, type MantineColorScheme, useMantineColorScheme } from "@mantine/core";
import { Icon, type IconName } from "../parts/layout/icon.tsx";

/** In the order in which the button cycles through them. */
const SCHEMES: readonly { value: MantineColorScheme; label: string; icon: IconName }[] = [
  { value: "auto", label: "system", icon: "system" },
  { value: "light", label: "light", icon: "sun" },
  { value: "dark", label: "dark", icon: "moon" },
];

export function ColorSchemeButton() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const at = SCHEMES.findIndex(({ value }) => value === colorScheme);
  const current = SCHEMES[Math.max(0, at)]!;
  const next = SCHEMES[(Math.max(0, at) + 1) % SCHEMES.length]!;
  const label = `Color scheme: ${current.label}. Switch to ${next.label}`;
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      aria-label={label}
      title={label}
      onClick={() => setColorScheme(next.value)}
    >
      <Icon name={current.icon} />
    </ActionIcon>
  );
}
