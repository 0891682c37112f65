if (ARGC != 2) { print "usage: gnuplot -c trace_reuse.gp DATA.csv OUT.svg|.png"; exit status 2 }

# Reuse in a trace: the share of the input tokens that an infinite prefix cache would have found, in
# bins of time, and of all tokens so far. Columns by name: label (of the trace), time_s (middle of
# the bin), reused_percent, reused_so_far_percent.
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1. The pass also takes the name.
name = ""
stats ARG1 using (name = strcol("label"), column("reused_percent")) name "DATA" nooutput
if (!exists("DATA_max")) exit status 1
stats ARG1 using (column("time_s")) name "TIME" nooutput

height = 470
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  title_font = ",17" # in points; the other terminal counts pixels
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,11" background rgb "white"
} else {
  title_font = ",22"
  set terminal svg size 1000,height fixed noenhanced font "DejaVu Sans,14" background rgb "white"
}
set output ARG2
y(pixels) = (pixels + 0.0) / height

set border 3 lc rgb "#595959"
set tics nomirror out tc rgb "#404040"
set grid xtics ytics lc rgb "#d9d9d9" lt 1 lw 1
set label 1 "Prefix reuse in ".name at screen 0.5, y(height - 26) center font title_font
set label 2 "input tokens found in an infinite cache (%)" at graph 0, graph 1 left offset 0.3,0.8
set xlabel "time (s)" offset 0,0.3
set lmargin at screen 0.085
set rmargin at screen 0.965
set tmargin at screen y(height - 84)
set bmargin at screen y(100)
set xrange [0 : TIME_max > 0 ? TIME_max : 1]
set yrange [0 : 101]
set key at screen 0.085, y(38) left top horizontal Left reverse samplen 2
plot ARG1 using (column("time_s")):(column("reused_percent")) with points pt 7 ps 0.45 \
       lc rgb "#56B4E9" title "within the bin", \
     ARG1 using (column("time_s")):(column("reused_so_far_percent")) with lines lw 2 \
       lc rgb "#D55E00" title "so far"
