/** `completion`: shell completion scripts, generated from the command tree. */
import { Argument, type Command } from "commander";
import type { Io } from "../terminal/io.ts";

export function addCompletionCommand(program: Command, io: Io): void {
  program
    .command("completion")
    .description("Print a completion script for a shell.")
    .addArgument(new Argument("<shell>").choices(["bash", "zsh", "fish"]))
    .addHelpText(
      "after",
      "\nExamples:\n  source <(backplane completion bash)\n  backplane completion fish > ~/.config/fish/completions/backplane.fish\n",
    )
    .action((shell: keyof typeof SCRIPTS) => {
      io.stdout.write(SCRIPTS[shell](commandNamesOf(program)));
    });
}

interface CommandNames {
  top: string[];
  groups: Record<string, string[]>;
  flags: string[];
}

function commandNamesOf(program: Command): CommandNames {
  const groups: Record<string, string[]> = {};
  for (const command of program.commands) {
    if (command.commands.length > 0) groups[command.name()] = command.commands.map((sub) => sub.name());
  }
  const flags = program.options.map((option) => option.long ?? "").filter((flag) => flag !== "");
  return { top: program.commands.map((command) => command.name()), groups, flags };
}

const SCRIPTS = { bash, zsh, fish };

function bash({ top, groups, flags }: CommandNames): string {
  const cases = Object.entries(groups).map(([group, subs]) => `      ${group}) words="${subs.join(" ")}" ;;`);
  return `_backplane() {
  local words="${flags.join(" ")}" word="\${COMP_WORDS[COMP_CWORD]}"
  COMPREPLY=()
  if [[ $word != -* ]]; then
    case "$COMP_CWORD:\${COMP_WORDS[1]}" in
      1:*) words="${top.join(" ")}" ;;
${cases.map((line) => line.replace(/^ {6}/, "      2:")).join("\n")}
      *) compopt -o default; return ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _backplane backplane
`;
}

function zsh({ top, groups }: CommandNames): string {
  const cases = Object.entries(groups).map(([group, subs]) => `    ${group}) compadd ${subs.join(" ")} ;;`);
  return `#compdef backplane
_backplane() {
  if (( CURRENT == 2 )); then compadd ${top.join(" ")}; return; fi
  if (( CURRENT > 3 )); then _files; return; fi
  case "$words[2]" in
${cases.join("\n")}
    *) _files ;;
  esac
}
compdef _backplane backplane
`;
}

function fish({ top, groups }: CommandNames): string {
  const lines = [`complete -c backplane -n __fish_use_subcommand -f -a "${top.join(" ")}"`];
  for (const [group, subs] of Object.entries(groups)) {
    const condition = `__fish_seen_subcommand_from ${group}; and not __fish_seen_subcommand_from ${subs.join(" ")}`;
    lines.push(`complete -c backplane -n "${condition}" -f -a "${subs.join(" ")}"`);
  }
  return `${lines.join("\n")}\n`;
}
