package My::Suite::Perdura;

# The suite runs where the plugin was built.
@ISA = qw(My::Suite);

return "No Perdura plugin" unless $ENV{HA_PERDURA_SO};

bless { };
