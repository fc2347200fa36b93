#include "cli/commands.h"

int main(int argc, char** argv) { return ballast::RunCli(argc, argv); }
